"""Proofs of the memory controller: what is proved and how is in docs/proofs.md; ``python -m sim.formal`` runs them."""
