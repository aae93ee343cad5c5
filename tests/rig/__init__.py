"""What tests stand on: devices, clocks and waits that need no hardware; nothing here is asserted."""
