"""Reads keep their order."""

from amaranth.hdl import Cat, Module, Signal

from sim.formal.monitor import RuleMonitor
from sim.formal.peek import Opened
from sim.formal.property import every

__all__ = ["order"]


def order(m: Module, controller: Opened, monitor: RuleMonitor, choose):
    """(name, property) pairs of lemma "order": the read chunk that is accepted when *choose* is high waits for those
    before it, then has its RDs issued, each once and in order, with nothing between."""
    ahead, columns = controller.parts["lookahead"], controller.parts["columns"]
    ports, command = columns.ports, controller.ports.read.command
    head, tail = ahead["head_pointer"], ahead["tail_pointer"]
    size = len(head) - 1
    waits, runs = Signal(), Signal()
    place, before, count = Signal(size), Signal(size + 1), Signal(7)
    beat, last = Signal.like(ahead.ports.head.payload.beat), Signal(7)
    pop, filled = Signal(), Signal(size + 1)
    m.d.comb += [pop.eq(ahead.ports.head.valid & ahead.ports.head.ready), filled.eq(tail - head)]
    with m.If(~waits & ~runs & choose & command.valid & command.ready):
        m.d.sync += [waits.eq(1), place.eq(tail), before.eq(filled - pop), beat.eq(command.payload.beat),
                     last.eq(command.payload.last)]
    with m.If(waits & pop):
        m.d.sync += before.eq(before - 1)
        with m.If(before == 0):
            m.d.sync += [waits.eq(0), runs.eq(1), count.eq(0)]
    with m.If(runs & ports.issue):
        m.d.sync += [count.eq(count + 1), runs.eq(count != last)]
    now = Signal.like(beat)
    m.d.comb += now.eq(Cat((beat[:7] + count)[:7], beat[7:]))
    entry = ahead.rows("queue")[place]
    word = monitor.column
    low, left = columns.signals("low")[0], columns.signals("left")[0]
    return [
        ("chunk_is_not_lost", ~(waits & runs) & (~runs | ports.active)),
        ("beat_in_order", ~(runs & ports.issue) | word.rd & (
            Cat(word.bank[3], word.col, word.bank[:3], ports.row) == now)),
        ("last_beat", ~(runs & ports.issue) | (ports.finished == (count == last))),
        ("invariant_order", every(
            [~waits, (before < filled) & (before == (place - head)[:size]) & ~entry.write
             & (entry.beat == beat) & (entry.last == last)],
            [filled <= 1 << size],
            [~runs, ~ports.write & (Cat(low, ports.pair, ports.row) == now) & (left == last - count)
             & (count <= last)],
        )),
    ]
