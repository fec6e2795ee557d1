// Package sandbox boots a real systemd for a test, in a third of a second and with
// nothing to install. systemd runs as PID 1 of its own namespaces, over a private copy
// of this machine's root that vanishes with it.
//
//	func TestMain(m *testing.M) {
//		sandbox.Main() // boots in a copy of the test binary
//		os.Exit(m.Run())
//	}
//
//	func TestUnit(t *testing.T) {
//		box := sandbox.Boot(t, sandbox.Options{})
//		box.Run("systemctl", "start", "bellhop")
//	}
//
// What a test installs, starts or breaks inside stays inside: files are written to
// memory, the network is only a loopback, and the kernel's settings are read-only. When
// the test ends, panics or is killed, the processes inside are killed. After a killed
// test, a later one removes the cgroup.
//
// A sandbox needs root and Linux with overlayfs and cgroups of version 2. It differs
// from a machine in two ways: limits of memory and the like are not enforced if the host
// does not share those controllers, and only the usual few devices exist.
package sandbox
