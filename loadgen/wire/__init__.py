"""What goes over the wire: framing, dialects, one answer folded into facts."""
