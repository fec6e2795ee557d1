// Package systemd holds what runs Bellhop as a service: units, the environment
// file, and what a Debian package is made of. There is no code in it but its
// tests, which boot a systemd of their own and do to the units what operators and
// accidents do.
package systemd
