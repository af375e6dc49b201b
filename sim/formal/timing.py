"""Timing rules of the whole controller, by induction."""

from dataclasses import dataclass
from types import MappingProxyType

from amaranth.hdl import Assume, Cat, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In

from hw.config import Config
from hw.dram import command
from hw.dram.controller import ChannelController
from hw.dram.pairs import PAIRS
from hw.dram.policy import Policy
from hw.dram.timing import Timing
from sim.formal.monitor import RuleMonitor
from sim.formal.order import order
from sim.formal.peek import Opened
from sim.formal.property import always, every
from sim.lpddr.rules import Rule
from sim.lpddr.table import DeviceTiming

__all__ = ["LEMMAS", "Lemma", "TimingProof"]


@dataclass(frozen=True)
class Lemma:
    """A step of the proof: the lemmas that it *assumes*, and the rules that it proves beside its invariants."""

    assumes: tuple
    rules: tuple = ()


_CLAIMS = tuple(f"claims of {pair}" for pair in range(PAIRS))
_BASE = ("start-up", "rows", "open")

LEMMAS = MappingProxyType({
    "start-up": Lemma((), (Rule.TMRW, Rule.TMRD)),
    "columns": Lemma((), (Rule.TCCD_S, Rule.TCCD_L, Rule.TWTR_S, Rule.TWTR_L, Rule.TRTW_S, Rule.TRTW_L, Rule.CAS_ALONE,
                          Rule.WCK_RESYNC, Rule.WCK_SYNC, Rule.RL, Rule.WL)),
    "rows": Lemma(("start-up", "columns"), (Rule.TRRD, Rule.TFAW, Rule.TPBR2ACT, Rule.TPBR2PBR, Rule.TPPD,
                                            Rule.ACT_PAIR, Rule.TAAD)),
    "refreshes": Lemma(("start-up",), (Rule.REF_ORDER,)),
    "pointers": Lemma(()),
    **{claims: Lemma(("pointers",)) for claims in _CLAIMS},
    "open": Lemma(("start-up", "rows", "pointers", *_CLAIMS), (Rule.ILLEGAL, Rule.BANK_OPEN, Rule.BANK_CLOSED,
                                                               Rule.REF_OPEN)),
    "tRCD": Lemma(_BASE, (Rule.TRCD,)),
    "RD to PRE": Lemma(_BASE, (Rule.TRTP,)),
    "WR to PRE": Lemma(_BASE, (Rule.TWR,)),
    "tRAS": Lemma((*_BASE, "tRCD"), (Rule.TRAS,)),
    "tRP": Lemma(_BASE, (Rule.TRPPB,)),
    "tRC": Lemma((*_BASE, "tRCD", "tRAS", "tRP"), (Rule.TRC,)),
    "tRFC": Lemma(_BASE, (Rule.TRFCPB,)),
    "order": Lemma(("start-up", "pointers")),
    "read credits": Lemma(()),
})
"""In the order of the proof: a lemma assumes only what stands above it, but for claims, which go by one induction."""

Word = StructLayout({"address": command.COMMAND_BITS, "cs": 1})


class TimingProof(Component):
    """The controller under any traffic: no command breaks a rule of *device*, for any pair, for ever.

    *lemma* is what is proved here, one of :data:`LEMMAS`. The inputs are free in every clock. ``rule_*`` are the
    properties, named as in :class:`sim.lpddr.rules.Rule`; ``invariant_*`` say what the controller's state knows about
    the past, which makes one step of induction enough.
    """

    def __init__(self, lemma: str, config: Config, timing: Timing, policy: Policy, device: DeviceTiming):
        self._lemma = lemma
        self._config, self._timing, self._policy, self._device = config, timing, policy, device
        bits = config.beat_address_bits
        super().__init__({
            "chunk_valid": In(1), "chunk_beat": In(bits), "chunk_last": In(7), "credit": In(2), "flush": In(1),
            "write_valid": In(1), "write_beat": In(bits), "init_complete": In(1), "choose": In(1),
        })

    def elaborate(self, platform):
        m = self._m = Module()
        t = self._timing
        m.submodules.controller = controller = Opened(ChannelController(self._config, t, self._policy))
        self._parts = parts = controller.parts
        ports = controller.ports
        m.d.comb += [
            ports.read.command.valid.eq(self.chunk_valid), ports.read.command.payload.beat.eq(self.chunk_beat),
            ports.read.command.payload.last.eq(self.chunk_last), ports.read.credit.eq(self.credit),
            ports.read.flush.eq(self.flush), ports.write.beats.valid.eq(self.write_valid),
            ports.write.beats.payload.beat.eq(self.write_beat), ports.dfi.init_complete.eq(self.init_complete),
        ]
        self._pair = pair = Signal(3)
        m.d.comb += pair.eq(AnyConst(3))

        startup, rows, columns = (parts[name].ports for name in ("startup", "rows", "columns"))
        # The commands in the clock before they are on the bus.
        p0, p1 = Signal(Word), Signal(Word)
        m.d.comb += [
            p0.cs.eq(rows.cs | columns.cas | startup.cs), p1.cs.eq(columns.issue), p1.address.eq(columns.command),
            p0.address.eq(Mux(columns.cas, command.cas(columns.write), Mux(startup.done, rows.command,
                                                                             startup.command))),
        ]
        self._monitor = monitor = RuleMonitor(m, self._device, p0, p1, pair)
        self._bus(ports.dfi, p0, p1)
        for name, lemma in LEMMAS.items():
            for rule in lemma.rules:
                self._always(name, f"rule_{rule.name}", ~monitor.broken[rule])
        self._start()
        self._row_engine()
        self._pair_table()
        self._columns()
        self._claims()
        self._refresh()
        self._credits()
        for name, condition in order(m, controller, monitor, self.choose):
            self._always("order", name, condition)
        return m

    def _always(self, lemma, name, condition):
        """A property of *lemma*: to be proved, or assumed if the lemma in hand may assume that one."""
        if lemma == self._lemma or lemma in LEMMAS[self._lemma].assumes:
            always(self._m, name, condition, assume=lemma != self._lemma)

    def _invariant(self, lemma, name, *conditions):
        self._always(lemma, f"invariant_{name}", every(*conditions))

    def _ages(self, lemma, *ages):
        """Ages are in their range."""
        self._invariant(lemma, "ages_" + lemma.replace(" ", "_"),
                        *[[(age.value >= 1) & (age.value <= age.most)] for age in ages])

    def _bus(self, dfi, p0, p1):
        """The bus shows those commands one clock later, WCK and data enables when they are due."""
        m, d, monitor = self._m, self._device, self._monitor
        before = Signal()  # not the first clock
        past = [Signal(Word, name=f"past_p{n}") for n in range(2)]
        synced = Signal()
        reads, writes = Signal((d.rl + 1) // 2 + 1), Signal((d.wl + 1) // 2 + 1)
        m.d.sync += [
            before.eq(1), past[0].eq(p0), past[1].eq(p1), synced.eq(monitor.synced),
            reads.eq((reads << 1) | monitor.rd), writes.eq((writes << 1) | monitor.wr),
        ]
        for n, (seen, word) in enumerate(((dfi.p0, past[0]), (dfi.p1, past[1]))):
            same = (seen.cs == word.cs) & (~word.cs | (seen.address == word.address))
            self._always("columns", f"bus_p{n}", ~before | same)
        self._always("columns", "rule_WCK_SYNC_pin", dfi.wck_en == synced)
        monitor.broken[Rule.RL] = dfi.rddata_en != reads[-1]
        monitor.broken[Rule.WL] = dfi.wrdata_en != writes[-1]
        due, on_way = self._parts["columns"]["due"], self._parts["writes"]["on_way"]
        self._invariant("columns", "data_due", [due == reads[:len(due)]])
        self._invariant("columns", "write_due", [on_way == writes[:len(on_way)]])

    def _start(self):
        """Nothing happens before the mode registers are written and the pair table is swept."""
        t, parts, monitor = self._timing, self._parts, self._monitor
        startup, ahead, writes = parts["startup"], parts["lookahead"], parts["writes"]
        done = startup.ports.done
        apart = max(t.row_to_row(t.tmrw), t.row_to_row(t.tmrd))
        index, wait, sweep = startup["index"], startup["wait"], parts["pairs"]["sweep"]
        age = monitor.mrw2.value
        # The table sweeps an entry a clock; a register takes at least apart + 1 clocks.
        clocks = Signal(range(16 * (apart + 1)))
        self._m.d.comb += clocks.eq(index * (apart + 1))
        swept = sweep[-1]
        self._ages("start-up", monitor.mrw2)
        self._invariant(
            "start-up", "startup",
            *[[done, ahead["head_pointer"] == ahead[f"{n}_pointer"]] for n in ("activate", "claim", "tail")],
            [done, ~parts["columns"].ports.active], [done, ~parts["refresher"].ports.held],
            [done, parts["rows"].state("IDLE")],
            [done, ~writes.ports.draining & (writes["tail_pointer"] == writes["scanned_pointer"]) & ~writes["have"]],
            [startup.state("TRAIN", "MRW1", "MRW2", "WAIT", "DONE")], [index <= 4], [sweep <= 8],
            [startup.state("WAIT", "MRW1", "MRW2", "DONE"), index == 0],
            *[[done, ~age.known]
              for age in (*monitor.act2, *monitor.pre, *monitor.rd_bank, *monitor.wr_bank, monitor.ref)],
            [done == startup.state("DONE")], [~startup.state("DONE"), index == 4],
            [~startup.state("MRW1", "MRW2"), index < 4],
            [~startup.state("MRW1"), swept, sweep >= clocks], [~startup.state("MRW2"), swept, sweep >= clocks + 1],
            [~startup.state("WAIT"), (index >= 1) & (wait <= apart - 2)],
            [~startup.state("WAIT"), swept, sweep + wait + 1 >= clocks],
            [~done, swept],
            [~startup.state("WAIT"), age + wait + 1 >= apart],
            [startup.state("WAIT", "MRW2"), age >= apart, ~monitor.mrw2.known],
        )

    def _row_engine(self):
        t, rows, monitor = self._timing, self._parts["rows"], self._monitor
        wait, second, refresh = rows["activate_wait"], rows["second_wait"], rows["refresh_wait"]
        rrd = max(t.row_to_row(t.trrd), 2)
        spacing = max(2 * rrd, -(-t.row_to_row(t.tfaw) // 2))
        after_second = spacing - rrd
        act, ref_any = monitor.act1_any, monitor.ref_any
        first, one, last = rows.state("ACT2_FIRST"), rows.state("ACT1_SECOND"), rows.state("ACT2_SECOND")
        quiet = rows.state("IDLE", "PRE_SECOND")
        half = first | one  # the newest pair has one of its two ACT-1
        known = [~age.known for age in act]
        self._ages("rows", *act, ref_any, monitor.pre_any)
        self._invariant(
            "rows", "row_engine",
            [quiet | half | last],
            [monitor.waiting == (first | last)],
            [~monitor.waiting, monitor.waiting_bank == Cat(rows["pair"], last)],
            # CAS takes the phase from ACT-2 at most once: WCK is in sync after it.
            [~monitor.waiting, act[0].value == 1, (act[0].value == 2) & (monitor.left > 2)],
            [half, known[0], act[0].value + wait >= after_second],
            [~half, known[0], act[0].value + second >= rrd],
            [half, known[0], act[0].value + refresh >= rrd],
            [~quiet, ~ref_any.known, ref_any.value + wait >= t.row_to_row(t.tpbr2act)],
            [quiet, ~ref_any.known, ref_any.value >= t.row_to_row(t.tpbr2act)],
            [~ref_any.known, ref_any.value + refresh >= t.row_to_row(t.tpbr2pbr)],
            # tFAW: of two pairs, from the first ACT-1 to the first, and from the second to the first.
            [half, known[1], act[1].value + wait >= spacing],
            [half, known[3], act[3].value >= act[1].value + spacing],
            [half, known[2], act[2].value >= act[1].value + after_second],
            [~half, known[0], act[0].value + wait >= spacing],
            [~half, known[2], act[2].value >= act[0].value + spacing],
            [~half, known[1], act[1].value >= act[0].value + after_second],
            [~half, known[3], act[3].value >= act[2].value + after_second],
        )

    def _pair_table(self):
        """What the tables say of the pair is what happened to its banks."""
        t, monitor, pair = self._timing, self._monitor, self._pair
        rows, table = self._parts["rows"], self._parts["pairs"]
        now = table["now"]
        here = rows["pair"] == pair
        first, rest = here & rows.state("ACT2_FIRST"), here & rows.state("ACT1_SECOND", "ACT2_SECOND")
        closing = here & rows.state("PRE_SECOND")
        activating = first | rest
        is_open = table.ports.open.bit_select(pair, 1)
        self._invariant(
            "open", "open",
            [activating, closing, (monitor.open[0] == is_open) & (monitor.open[1] == is_open)],
            [~activating, ~is_open & ~monitor.open[1] & (monitor.open[0] == rest)],
            [~closing, is_open & ~monitor.open[0] & monitor.open[1]],
        )

        def ahead(name):
            """Clocks until a time of the pair's entry, signed."""
            left = Signal(len(now), name=f"{name}_left")
            self._m.d.comb += left.eq(table.rows(name)[pair] - now)
            return left.as_signed()

        act2, pre, ref = monitor.act2, monitor.pre, monitor.ref
        read, write = t.column_to_row(t.rd_to_pre), t.column_to_row(t.wr_to_pre)
        read_left, write_left, closed_left = ahead("read_done"), ahead("write_done"), ahead("closed_done")
        opened_left = ahead("opened_done")
        rp, rfc, ras = t.row_to_row(t.trppb), t.row_to_row(t.trfcpb), t.row_to_row(t.tras)
        rcd = t.row_to_column(t.trcd)

        def older(second, age):
            """The first bank's event came before the second's."""
            return ~second.known | (second.value > age.value)

        self._ages("open", *act2)
        self._invariant(
            "open", "opened",
            [~act2[1].known, opened_left == ras - 1 - act2[1].value],
            [~is_open, older(act2[0], act2[1])],
            [~closing, ~act2[1].soon(2 * ras)],
            # Events on their way are those of the pair that is open, of their age, and what comes after them is usable.
            *[[~self._opening(age), is_open & (act2[1].value == age)] for age in range(1, rcd)],
            *[[~usable, is_open & (~act2[1].known | (act2[1].value >= rcd - 1 + group))]
              for group, usable in enumerate(self._usable())],
        )
        for lemma, name, left, clocks, ages in (("RD to PRE", "read_done", read_left, read, monitor.rd_bank),
                                                ("WR to PRE", "write_done", write_left, write, monitor.wr_bank)):
            self._ages(lemma, *ages)
            self._invariant(
                lemma, name,
                *[[~age.known, (left + age.value >= clocks - g) & (left <= clocks)] for g, age in enumerate(ages)],
                *[[monitor.open[g] & ~closing, ~age.known, age.value >= clocks] for g, age in enumerate(ages)],
            )
        self._ages("tRP", *pre)
        self._ages("tRFC", ref)
        longest = max(rp, rfc)
        self._invariant(
            "tRP", "closed_done",
            [~pre[1].known, (closed_left + pre[1].value >= rp - 1) & (closed_left <= longest)],
            [closing, older(pre[0], pre[1])],
            [~activating, ~pre[1].known, pre[1].value >= rp], [~activating, rest, ~pre[0].known, pre[0].value >= rp],
        )
        self._invariant("tRC", "row_cycle",
                        *[[monitor.open[g], ~act2[g].known, act2[g].value >= pre[g].value + ras] for g in range(2)])
        self._invariant(
            "tRFC", "refreshed_done",
            [~ref.known, (closed_left + ref.value >= rfc) & (closed_left <= longest)],
            [~(is_open | activating), ~ref.known, ref.value >= rfc],
        )

    def _opening(self, age):
        """The pair was opened *age* clocks ago and its bits are not all set."""
        table = self._parts["pairs"]
        return table[f"opened_{age}"] & (table[f"opened_pair_{age}"] == self._pair)

    def _usable(self):
        """The pair's bits by BG1: its bank takes columns."""
        return [self._parts["pairs"][f"usable_{group}"].bit_select(self._pair, 1) for group in range(2)]

    def _columns(self):
        columns, monitor = self._parts["columns"], self._monitor
        depth = min(len(columns["reads"]), len(monitor.reads))
        self._invariant(
            "columns", "columns",
            [columns["reads"][:depth] == monitor.reads[:depth]],
            [columns["writes"][:depth] == monitor.writes[:depth]],
            [columns["groups"][:2 * depth] == monitor.groups[:2 * depth]],
            [columns["left"] == monitor.left],
        )

    def _claims(self):
        """Chunks that use a pair are counted, so that a row is not closed under them."""
        ahead, rows, columns = self._parts["lookahead"], self._parts["rows"], self._parts["columns"].ports
        refresher, pair = self._parts["refresher"].ports, self._pair
        head, activating, claiming, tail = (ahead[f"{n}_pointer"] for n in ("head", "activate", "claim", "tail"))
        depth = self._policy.chunks
        index = depth.bit_length() - 1
        filled, claimed, activated = (Signal(index + 1, name=f"{n}_chunks") for n in ("filled", "claimed", "activated"))
        self._m.d.comb += [filled.eq(tail - head), claimed.eq(claiming - head), activated.eq(activating - head)]
        self._invariant("pointers", "pointers", [filled <= depth], [claimed <= filled], [activated <= claimed])
        queue = ahead.rows("queue")
        self._invariant("pointers", "claim_chunk",
                        [claiming == tail, ahead["claim_chunk"] == queue[claiming[:index]]])
        used = []  # of each place in the queue: is claimed, pair
        for place in range(depth):
            after = Signal(index, name=f"after_head{place}")
            where = Signal(3, name=f"queued_pair{place}")
            self._m.d.comb += [after.eq(place - head), where.eq(queue[place].beat[7:10])]
            used.append((after < claimed, where))
        right = Signal(PAIRS)
        for q in range(PAIRS):
            count = Signal(4, name=f"users{q}")
            users = [valid & (where == q) for valid, where in used] + [columns.active & (columns.pair == q)]
            self._m.d.comb += [count.eq(sum(users)), right[q].eq(ahead["claimed"].word_select(q, 4) == count)]
        # Counts share an adder: a step for one is shown from all in the clock before.
        before = Signal(init=1)
        self._m.d.sync += before.eq(right.all())
        if self._lemma.startswith("claims of"):
            self._m.d.comb += Assume(before)
        for q in range(PAIRS):
            self._always(f"claims of {q}", f"invariant_claims{q}", right[q])
        self._invariant(
            "open", "closing",
            [~(rows.state("PRE_SECOND") & (rows["pair"] == pair)), refresher.held & (refresher.held_pair == pair),
             (ahead["claimed"].word_select(pair, 4) == 0) & (claiming != tail) & (ahead.ports.claim_pair == pair)
             & ~ahead["same"]],
            [~(columns.issue & (columns.pair == pair)),
             ~(rows.ports.precharge.taken & (rows.ports.precharge.pair == pair))
             & ~(rows.state("PRE_SECOND") & (rows["pair"] == pair))],
        )

    def _credits(self):
        """No read without a credit; the receiver gives back only what it has got."""
        beats, monitor = self._config.fifo_beats, self._monitor
        owed = Signal(range(beats + 1))  # beats read whose credit has not come back
        self._m.d.sync += owed.eq(owed + monitor.rd - self.credit)
        if self._lemma == "read credits":
            always(self._m, "assumed_credit", self.credit <= owed, assume=True)
        self._always("read credits", "read_has_credit", ~monitor.rd | (owed < beats))
        self._invariant("read credits", "credits", [self._parts["columns"]["credits"] + owed == beats])

    def _refresh(self):
        refresher, monitor = self._parts["refresher"], self._monitor
        held, pair = refresher.ports.held, refresher.ports.held_pair
        self._invariant("refreshes", "turns",
                        [refresher["done"] == monitor.turns], [~held, ~monitor.turns.bit_select(pair, 1)])
