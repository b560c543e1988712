//! Native protocol v3 to v5: bytes to requests, answers to bytes, and the other way round for clients.
