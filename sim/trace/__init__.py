"""Windows of a run as a timeline, for people and for other simulators."""
