"""Turns results into sentences and tables for people."""
