"""The parts of the change `emulate_link`: they hold messages back until a slower link would be through."""
