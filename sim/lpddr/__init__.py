"""LPDDR5X device model: decodes commands, checks every rule, and holds data in a store outside."""
