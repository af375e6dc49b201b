"""The Headrace accelerator in Amaranth. Imports nothing of sim or firmware."""
