"""Predictions judged by measurements, and calibrations fitted to them."""
