"""The study's table: rows, columns, one text table, and a printer for each format."""
