"""What a folder of Verilog says about itself: parameters, versions, modules, ports and the structs in them."""

import hashlib
from dataclasses import fields

from amaranth.hdl import Shape
from amaranth.lib.data import ArrayLayout, Layout, StructLayout

__all__ = ["content_hash", "layout", "manifest", "sums"]

FORMAT = 1
"""Version of the manifest's own form."""


def manifest(config, modules, versions):
    """Dictionary for manifest.json of *modules* (:class:`hw.verilog.ModuleFile`) that were written for *config*."""
    parameters = {field.name: getattr(config, field.name) for field in fields(config) if field.name != "name"}
    return {
        "headrace": FORMAT,
        "preset": config.name,
        "changes": config.changes(),
        "parameters": parameters,
        "versions": versions,
        "top": modules[-1].name,
        "modules": [_module(module) for module in modules],
    }


def sums(files):
    """Text that ``sha256sum -c`` checks *files* (name -> text) by."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items()))


def content_hash(files):
    """SHA-256 of :func:`sums`: equal exactly if all names and contents are."""
    return hashlib.sha256(sums(files).encode()).hexdigest()


def layout(shape):
    """*shape* as values: fields with the bit that they begin at, names of an enumeration's values, or just a width."""
    width = Shape.cast(shape).width
    try:
        known = Layout.cast(shape)
    except TypeError:
        known = None
    if isinstance(known, StructLayout):
        return {"width": width, "fields": {
            name: {"low": field.offset, **layout(field.shape)} for name, field in known if field.width}}
    if isinstance(known, ArrayLayout):
        return {"width": width, "length": known.length, "element": layout(known.elem_shape)}
    values = {member.name.lower(): member.value for member in shape} if isinstance(shape, type) else {}
    return {"width": width} | ({"signed": True} if Shape.cast(shape).signed else {}) | (
        {"values": values} if values else {})


def _module(module):
    shapes = {"__".join(map(str, path)): member.shape
              for path, member, _ in module.component.signature.flatten(module.component)}
    return {
        "name": module.name,
        "file": f"rtl/{module.file}",
        "is": module.summary,
        "class": type(module.component).__name__,
        "source": module.source,
        "ports": [{"name": port.name, "direction": port.direction,
                   **(layout(shapes[port.name]) if port.name in shapes else {"width": port.width})}
                  for port in module.ports],
    }
