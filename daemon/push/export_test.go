package push

import "net/netip"

// CheckAddress returns why an address may not be dialled.
func CheckAddress(a Allow, address netip.Addr, plain bool) error { return a.check(address, plain) }
