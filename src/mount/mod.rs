//! Composition root: wires the parts, runs the session, keeps the shutdown order.
