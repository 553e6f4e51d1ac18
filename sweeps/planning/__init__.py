"""What will run: composed rows, the plan, and what `study.json` records. Nothing here starts
anything."""
