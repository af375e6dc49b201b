"""What the subcommands of ``headrace`` do."""
