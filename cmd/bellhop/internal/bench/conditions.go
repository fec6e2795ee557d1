package bench

import (
	"context"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Conditions say how it was measured.
type Conditions struct {
	Began    time.Time `json:"began"`
	Daemon   string    `json:"daemon"`  // which process is it
	Library  string    `json:"library"` // which process has the publishers, subscribers and clients
	Redis    string    `json:"redis"`   // version, persistence and address
	Others   float64   `json:"other_commands_per_second"`
	Cores    int       `json:"cores"`
	Platform string    `json:"platform"`

	// Shares of the processors that others used, just before and meanwhile; negative: unknown.
	Busy      float64 `json:"busy_percent"`
	Meanwhile float64 `json:"busy_meanwhile_percent"`

	began usage
	redis []string // folders of its servers in /proc, if they are on this machine
}

const (
	looks    = 500 * time.Millisecond // how long Examine looks
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
	before, err := db.Home().Info(ctx)
	if err != nil {
		return Conditions{}, err
	}
	servers, err := db.Servers(ctx)
	if err != nil {
		return Conditions{}, err
	}
	var redis []string
	for _, server := range servers {
		if info, err := server.Info(ctx, "server"); err == nil {
			redis = append(redis, processOf(info))
		}
	}
	used := usageWith(redis)
	if err := sleep(ctx, looks); err != nil {
		return Conditions{}, err
	}
	began := usageWith(redis)
	after, err := db.Home().Info(ctx)
	if err != nil {
		return Conditions{}, err
	}
	o := Conditions{
		Began:   time.Now(),
		Daemon:  "bellhop serve, a process of its own for each measurement",
		Library: fmt.Sprintf("process %d, with the publishers, the subscribers and the clients of HTTP", os.Getpid()),
		Redis:   redisOf(after) + where(db, servers, c.Shards),
		Others:  max(0, commands(after)-commands(before)-1) / looks.Seconds(), // less one INFO
		Cores:   runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Busy: began.others(used), began: began, redis: redis,
	}
	return o, nil
}

// where returns in words where a Redis is, and how many shards are measured there.
func where(db *notify.Store, servers []reach.Server, shards int) string {
	text := " at " + db.Address()
	if db.InCluster() {
		masters := slices.DeleteFunc(slices.Clone(servers), func(s reach.Server) bool { return s.IsReplica })
		text = fmt.Sprintf(", a Cluster of %d masters,%s", len(masters), text)
	}
	if shards > 1 {
		text += fmt.Sprintf(", with %d shards", shards)
	}
	return text
}

// End looks at this machine again, once everything is measured.
func (o *Conditions) End() { o.Meanwhile = usageWith(o.redis).others(o.began) }

// Rows returns the conditions in words, each after what it is about, and says what
// makes the figures worse.
func (o Conditions) Rows() [][2]string {
	machine := fmt.Sprintf("%s, %d cores, %s", o.Platform, o.Cores, Busyness(o.Busy, "before"))
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
	return toNumber(info["total_commands_processed"])
}

// Busyness returns in words what share of the processors others used at some time.
func Busyness(percent float64, when string) string {
	switch {
	case percent < 0:
		return "no word on whether others used it " + when
	case percent < restful:
		return fmt.Sprintf("at rest %s: others used %.0f %%", when, percent)
	}
	return fmt.Sprintf("BUSY %s: others used %.0f %%; at rest the figures are better", when, percent)
}

// usage is how long the processors were used, in ticks of 10 ms. All is zero where
// there is no proc(5).
type usage struct{ all, used, ours float64 }

// others returns the share that others used since before, in percent; -1: unknown.
func (u usage) others(before usage) float64 {
	if u.all == before.all {
		return -1
	}
	return 100 * max(0, u.used-before.used-(u.ours-before.ours)) / (u.all - before.all)
}

// usageWith returns the usage until now. Ours are this process, the daemons that have
// ended, and the servers of Redis with their folders in /proc.
func usageWith(redis []string) (u usage) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	const idle, wait, guest = 4, 5, 9 // fields of the line; guests are counted as users already
	for i, field := range strings.Fields(line) {
		if i == 0 || i >= guest {
			continue
		}
		n := toNumber(field)
		if u.all += n; i != idle && i != wait {
			u.used += n
		}
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var took syscall.Rusage
		if syscall.Getrusage(who, &took) == nil {
			u.ours += 100 * (time.Duration(took.Utime.Nano()) + time.Duration(took.Stime.Nano())).Seconds()
		}
	}
	for _, folder := range redis {
		text, err := os.ReadFile(folder + "/stat")
		if folder == "" || err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name of the program, which may have blanks
		if fields := strings.Fields(rest); len(fields) > 12 {
			u.ours += toNumber(fields[11]) + toNumber(fields[12])
		}
	}
	return u
}

// processOf returns the folder in /proc of a Redis; empty if it is not on this machine.
func processOf(info map[string]string) string {
	folder := "/proc/" + info["process_id"]
	name, err := os.ReadFile(folder + "/comm")
	if program := strings.TrimSpace(string(name)); err != nil || program == "" || !strings.HasPrefix(path.Base(info["executable"]), program) {
		return ""
	}
	return folder
}

// toNumber returns a number, or zero.
func toNumber(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}
