// Package clients is the home of the packages for Node and Python, which call the daemon over HTTP: README.md is the page of both. There is no Go
// in it but the tests, which run both against real daemons. systemd/release packs them.
package clients
