"""Blocks of the design on an ECP5: cells from Yosys, place and route by nextpnr.

``blocks`` says what is counted apart, ``flow`` runs the programs, ``path`` puts a critical path in words.
"""
