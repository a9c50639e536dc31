"""The procurement report as a workbook: one module for each kind of sheet."""
