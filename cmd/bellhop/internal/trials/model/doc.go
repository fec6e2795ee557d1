// Package model holds the test that publishes, cancels and works on few ids from many
// processes, kills some of them, and then checks that what all of them were answered
// can have happened: that there is an order of the calls on each id, within the times
// of each call, in which a model of one id gives those very answers. Plans of one process, by a clock that is moved by hand, are checked
// to the microsecond.
package model
