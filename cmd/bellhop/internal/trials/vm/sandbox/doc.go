// Package sandbox boots a real systemd for a test, in a third of a second and
// with nothing to install: as PID 1 of namespaces of its own, over a copy of this
// machine's root that nobody else sees and that vanishes with it.
//
//	func TestMain(m *testing.M) {
//		sandbox.Main() // the test binary is what boots
//		os.Exit(m.Run())
//	}
//
//	func TestUnit(t *testing.T) {
//		box := sandbox.Boot(t, sandbox.Options{})
//		box.Run("systemctl", "start", "bellhop")
//	}
//
// What a test installs, starts or breaks inside stays inside: files are written
// to memory, the network has nothing but loopback, and the kernel's settings are
// read-only. When the test ends the processes are killed, also where it panics or
// is killed itself; of that a later test removes the cgroup.
//
// It takes root and Linux with overlayfs and cgroups of version 2. Two things
// differ from a machine: limits of memory and the like are not enforced, where the
// host keeps those controllers to itself, and no device but the usual few exists.
package sandbox
