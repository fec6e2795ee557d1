package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Conditions say how it was measured.
type Conditions struct {
	Began    time.Time `json:"began"`
	Daemon   string    `json:"daemon"`  // which process is it
	Library  string    `json:"library"` // which process has the publishers, subscribers and clients
	Redis    string    `json:"redis"`   // version, persistence and address
	Others   float64   `json:"other_commands_per_second"`
	Cores    int       `json:"cores"`
	Busy     float64   `json:"busy_percent"` // share of the processors that others used just before; negative: unknown
	Platform string    `json:"platform"`
}

const (
	watched  = 500 * time.Millisecond // how long Examine looks
	restful  = 5                      // percent: below, a machine is at rest
	fewCalls = 25                     // commands a second: below, the others are services at rest
)

// Examine looks for half a second at the Redis that c names and at this machine. The
// error is that of the connection.
func Examine(ctx context.Context, c notify.Config) (Conditions, error) {
	db, err := notify.Open(c)
	if err != nil {
		return Conditions{}, err
	}
	defer db.Close()
	before, err := db.Info(ctx)
	if err != nil {
		return Conditions{}, err
	}
	used, all := processors()
	if err := sleep(ctx, watched); err != nil {
		return Conditions{}, err
	}
	usedThen, allThen := processors()
	after, err := db.Info(ctx)
	if err != nil {
		return Conditions{}, err
	}
	o := Conditions{
		Began:   time.Now(),
		Daemon:  "bellhop serve, a process of its own for each measurement",
		Library: fmt.Sprintf("process %d, with the publishers, the subscribers and the clients of HTTP", os.Getpid()),
		Redis:   fmt.Sprintf("%s at %s", redisOf(after), db.Address()),
		Others:  max(0, commands(after)-commands(before)-1) / watched.Seconds(), // less one INFO
		Cores:   runtime.NumCPU(), Busy: -1, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if allThen > all {
		o.Busy = 100 * (usedThen - used) / (allThen - all)
	}
	return o, nil
}

// Rows returns the conditions in words, each after what it is about, and says what makes the figures worse.
func (o Conditions) Rows() [][2]string {
	machine := fmt.Sprintf("%s, %d cores, ", o.Platform, o.Cores)
	switch {
	case o.Busy < 0:
		machine += "no word on whether others use it"
	case o.Busy < restful:
		machine += fmt.Sprintf("at rest before (%.0f %%)", o.Busy)
	default:
		machine += fmt.Sprintf("BUSY before (%.0f %%): at rest the figures are better", o.Busy)
	}
	redis := o.Redis
	if o.Others >= fewCalls {
		redis += fmt.Sprintf("; others send it %.0f commands/s, which rest counts, too", o.Others)
	}
	return [][2]string{{"daemon", o.Daemon}, {"library", o.Library}, {"redis", redis}, {"machine", machine}}
}

// redisOf returns the name and version of a Redis, and whether it writes what it is told.
func redisOf(info map[string]string) string {
	name := "Redis " + info["redis_version"]
	if valkey := info["valkey_version"]; valkey != "" {
		name = "Valkey " + valkey
	}
	if info["aof_enabled"] == "1" {
		return name + " with an append-only file"
	}
	return name + " without an append-only file"
}

// commands returns how many commands a Redis has carried out.
func commands(info map[string]string) float64 {
	n, _ := strconv.ParseFloat(info["total_commands_processed"], 64) // zero: not known
	return n
}

// processors returns the time that all processors were used, and all of their time,
// in ticks (proc(5), /proc/stat). Both are zero where there is no such file.
func processors() (used, all float64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	const idle, wait, guest = 4, 5, 9 // fields of the line; guests are counted as users already
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || i >= guest {
			continue
		}
		if all += n; i != idle && i != wait {
			used += n
		}
	}
	return used, all
}
