"""How a verb states its question: fields, words, doors; and how a door reads and asks one."""
