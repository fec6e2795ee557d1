package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// The schedule of which messages are made by hand alone, since it is paused.
const (
	byHandTopic  = "byhand"
	byHandName   = "past"
	backfilled   = 120 // occurrences, in several calls
	importPrefix = "imported"
)

// A clerk makes calls with the command line, of which some are killed by kill -9 and repeated: an export of the store under load and its import
// under another prefix, a backfill, and runs of a schedule.
type clerk struct {
	w      *world
	rnd    *rand.Rand
	took   time.Duration // by the last call
	export string        // path
	runs   []handRun
}

// A handRun is a call to run a schedule, from when until when by the machine's clock, in µs. Without an id nobody was told whether it was made.
type handRun struct {
	from, to int64
	id       string
	due      time.Time
}

func newClerk(ctx context.Context, w *world) (*clerk, error) {
	shard := w.store.Of(byHandTopic)
	if _, _, err := shard.PutSchedule(ctx, &store.Schedule{
		Topic: byHandTopic, Name: byHandName, Spec: calendar.Spec{Every: time.Second}, Message: notify.Record{Body: []byte("x")},
	}, store.AnyRevision); err != nil {
		return nil, err
	}
	k := &clerk{w: w, rnd: rand.New(rand.NewPCG(w.seed, 2)), export: filepath.Join(w.dir, "store.export")}
	return k, shard.PauseSchedule(ctx, byHandTopic, byHandName, store.AnyRevision)
}

// work makes all calls, and runs the schedule until enough.
func (k *clerk) work(ctx, enough context.Context) error {
	if err := k.repeat("exported", 0, "", "export", k.export); err != nil {
		return err
	}
	if err := k.imports(2); err != nil {
		return err
	}
	if err := k.backfill(ctx); err != nil {
		return err
	}
	for n := 0; enough.Err() == nil; n++ {
		k.run(n%3 == 2)
		rest(enough, 200*time.Millisecond)
	}
	return nil
}

// beside works while something happens.
func (k *clerk) beside(ctx context.Context, happens func() error) error {
	enough, end := context.WithCancel(ctx)
	defer end()
	worked := make(chan error, 1)
	go func() { worked <- k.work(ctx, enough) }()
	err := happens()
	end()
	return errors.Join(err, <-worked)
}

// call makes a call under a prefix, and returns what it printed. The error says that it was killed, or failed.
func (k *clerk) call(isKilled bool, prefix string, args ...string) (printed []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	if isKilled {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(k.rnd.Int64N(int64(k.took)+1)))
	}
	defer cancel()
	began := time.Now()
	c := exec.CommandContext(ctx, bellhop, args...)
	c.Env = append(environment(k.w.config()), "BELLHOP_PREFIX="+cmp.Or(prefix, script.DefaultPrefix))
	if printed, err = c.Output(); err == nil {
		k.took = time.Since(began)
		return printed, nil
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("bellhop %s: %w: %s%s", strings.Join(args, " "), err, printed, failed.Stderr)
	}
	return printed, err
}

// repeat makes a call that is killed some times, until it succeeds.
func (k *clerk) repeat(what string, kills int, prefix string, args ...string) (err error) {
	for range kills {
		_, _ = k.call(true, prefix, args...) // it may have succeeded
	}
	if late := until("it is "+what, func() bool {
		_, err = k.call(false, prefix, args...)
		return err == nil
	}); late != nil {
		return errors.Join(late, err)
	}
	return nil
}

// imports imports the file, which is killed some times, until each line of it is published, restored, or there unchanged.
func (k *clerk) imports(kills int) error {
	all, err := exportedIn(k.export)
	if err != nil {
		return err
	}
	args := []string{"publish", "--file", k.export, "--json"}
	for range kills {
		_, _ = k.call(true, importPrefix, args...)
	}
	var sum struct{ Published, Refused, Restored, Unchanged int }
	late := until("it is imported", func() bool {
		var printed []byte
		printed, err = k.call(false, importPrefix, args...)
		return json.Unmarshal(printed, &sum) == nil && sum.Published+sum.Refused+sum.Restored+sum.Unchanged == len(all)
	})
	if late != nil {
		return errors.Join(late, err)
	}
	return nil
}

// backfill makes the occurrences of some past minutes, each of which is published once.
func (k *clerk) backfill(ctx context.Context) error {
	now, err := k.w.now(ctx)
	if err != nil {
		return err
	}
	from := now.Add(-time.Hour).Truncate(time.Second)
	var ops []*history.Operation
	for i := range backfilled {
		id := byHandName + "~" + from.Add(time.Duration(i)*time.Second).UTC().Format(time.RFC3339)
		ops = append(ops, k.w.log.Call(history.Record{Op: history.Publish, Topic: byHandTopic, ID: id}))
	}
	period := from.UTC().Format(time.RFC3339) + ".." + from.Add(backfilled*time.Second).UTC().Format(time.RFC3339)
	if err := k.repeat("backfilled", 3, "", "schedule", "backfill", byHandTopic, byHandName, period); err != nil {
		return err
	}
	for _, op := range ops {
		op.End(history.OK, history.Record{})
	}
	return nil
}

// now returns Redis's time, as soon as it answers.
func (w *world) now(ctx context.Context) (now time.Time, err error) {
	late := until("redis answers", func() bool {
		now, err = w.store.Now(ctx)
		return err == nil
	})
	return now, errors.Join(late, err)
}

// run runs the schedule now.
func (k *clerk) run(isKilled bool) {
	r := handRun{from: time.Now().UnixMicro()}
	var made api.Publication
	printed, err := k.call(isKilled, "", "schedule", "run", byHandTopic, byHandName, "--json")
	if err == nil && json.Unmarshal(printed, &made) == nil {
		r.id, r.due, r.to = made.ID, made.Due, time.Now().UnixMicro()
	}
	k.runs = append(k.runs, r)
}

// records adds the publishes of the runs to a history, in its order: those that were told, and for each id that nobody was told of, a run of
// which nobody knows whether it was made.
func (k *clerk) records(all []history.Record) []history.Record {
	var untold []handRun
	told := make(map[string]bool)
	n := int64(0)
	add := func(r handRun) {
		n++
		call := history.Record{At: r.from, Process: "runs", N: n, Op: history.Publish, Phase: history.Call, Topic: byHandTopic, ID: r.id}
		all = append(all, call)
		if r.to > 0 {
			call.At, call.Phase, call.Due = r.to, history.OK, r.due.UnixMilli()
			all = append(all, call)
		}
	}
	for _, r := range k.runs {
		if told[r.id] = r.id != ""; r.id == "" {
			untold = append(untold, r)
			continue
		}
		add(r)
	}
	for _, taken := range slices.Clone(all) {
		isRun := taken.Op == history.Take && taken.Topic == byHandTopic && strings.Contains(taken.ID, ".") // its time has milliseconds
		if !isRun || told[taken.ID] || len(untold) == 0 || untold[0].from > taken.At {
			continue
		}
		told[taken.ID], untold[0].id = true, taken.ID
		add(untold[0])
		untold = untold[1:]
	}
	slices.SortStableFunc(all, func(a, b history.Record) int { return cmp.Compare(a.At, b.At) })
	return all
}

// checkImport imports the file once more, which makes whole what a failure had Redis forget, and compares all that is there with the file.
// What was due before it was imported is due as it was imported. What is dropped where its key is busy may be gone once it is due.
func (k *clerk) checkImport(ctx context.Context) error {
	if err := k.imports(0); err != nil {
		return err
	}
	now, err := k.w.now(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(k.w.dir, "imported.export")
	if err := k.repeat("exported again", 0, importPrefix, "export", path); err != nil {
		return err
	}
	want, err := exportedIn(k.export)
	if err != nil {
		return err
	}
	got, err := exportedIn(path)
	if err != nil {
		return err
	}
	for what, was := range want {
		is, there := got[what]
		dropped := !there && was.IfBusy != "" && !was.Due.After(now)
		if delete(got, what); !dropped && (!there || !is.Due.Equal(was.Due) && (is.Due.Before(was.Due) || is.Due.After(now))) {
			return fmt.Errorf("an import has no %+v, due %v: %v, due %v", what, was.Due, there, is.Due)
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("an import has more than its file: %v", got)
	}
	return nil
}

// A subject is what a line of an export is about.
type subject struct {
	Kind, Topic, Name, ID, Mode string
	made                        string // by a schedule
}

// An exported says when a message is due, and whether it is dropped then if its key is busy: that is empty once it was judged.
type exported struct {
	Due    time.Time
	IfBusy string `json:"if_busy"`
}

// exportedIn returns the messages in a file, and the schedules, with what these have made, and pushes. None may be there twice.
func exportedIn(path string) (map[subject]exported, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := make(map[subject]exported)
	for line := range strings.Lines(string(text)) {
		var one struct {
			subject
			exported
			Restore struct {
				Cursor      time.Time
				Made        int64
				Occurrences []any
			}
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, line, err)
		}
		what := one.subject
		what.made = fmt.Sprint(one.Restore)
		if _, twice := all[what]; twice {
			return nil, fmt.Errorf("%s: %+v is there twice", path, what)
		}
		all[what] = one.exported
	}
	return all, nil
}
