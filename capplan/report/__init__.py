"""Renderings: a plan or report in, text or bytes out; nothing is printed here."""
