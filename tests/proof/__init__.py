"""Proofs that the whole holds: real bundles, real streams, real processes; no unit of code is tested here."""
