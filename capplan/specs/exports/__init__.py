"""Exports of prices, in the forms in which providers and catalogues publish them: each form has its reader."""
