"""Decide what to buy or rent: from plans, a load and prices to the report that every format shows."""
