"""Which operator lost the channel clocks that carried no data: measured in the simulator, named by the two programs."""
