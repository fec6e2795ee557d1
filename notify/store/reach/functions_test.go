package reach_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// publishAndAck takes a message through its life.
func publishAndAck(ctx context.Context, s store.Shard) error {
	placed, err := s.Publish(ctx, []store.Publish{{Topic: "t", Member: "t:" + record.NewID(), Tail: "\n"}})
	if err != nil || placed[0].Refusal != 0 {
		return fmt.Errorf("publish: %v, %v", placed, err)
	}
	got, err := s.Claim(ctx, store.Claim{Topic: "t", Max: 1, Lease: time.Minute})
	if err != nil || len(got.Messages) != 1 {
		return fmt.Errorf("claim: %v, %v", got, err)
	}
	if lost, err := s.Ack(ctx, "t", []store.Lease{got.Messages[0].Lease}); err != nil || lost != nil {
		return fmt.Errorf("ack: %v, %v", lost, err)
	}
	return nil
}

// commandsOf returns how often a server was called with commands.
func commandsOf(t *testing.T, client redis.UniversalClient, names ...string) (calls []int) {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	for _, name := range names {
		_, rest, _ := strings.Cut(info, "cmdstat_"+name+":calls=")
		text, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(text)
		calls = append(calls, n)
	}
	return calls
}

// refusalsOf returns how often a server refused a command.
func refusalsOf(t *testing.T, client redis.UniversalClient, name string) int {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	_, rest, _ := strings.Cut(info, "cmdstat_"+name+":")
	_, rest, _ = strings.Cut(rest, "rejected_calls=")
	text, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(text)
	return n
}

// Functions that are deleted under load are loaded again, and no call fails or is carried out twice.
func TestFunctionsAreDeletedUnderLoad(t *testing.T) {
	t.Parallel()
	s := storetest.Unhurried(storetest.At(t, storetest.Lend(t), "p"))
	before := commandsOf(t, s.Client(), "function|load")[0]
	const each = 100
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range each {
				storetest.Should(t, publishAndAck(t.Context(), s.Of("t")))
				switch i % 10 {
				case 3:
					s.Client().FunctionFlush(t.Context())
				case 7: // an error if another has just flushed
					s.Client().FunctionDelete(t.Context(), script.LibraryName())
				}
			}
		})
	}
	all.Wait()
	for _, counter := range []string{"t:published", "t:acked"} {
		if n, err := s.Client().HGet(t.Context(), s.Keys().Topics(), counter).Int(); err != nil || n != 8*each {
			t.Errorf("%s is %d, %v; want %d", counter, n, err, 8*each)
		}
	}
	if loads := commandsOf(t, s.Client(), "function|load")[0] - before; loads < 2 {
		t.Errorf("the functions were loaded %d times", loads)
	}
}

// addUser gives a server a user of some rights, and returns the URL with which that user connects.
func addUser(t *testing.T, server *redisserver.Server, admin redis.UniversalClient, name, rights string) (url string) {
	t.Helper()
	rule := []any{"ACL", "SETUSER", name, "on", ">secret"}
	for _, one := range strings.Fields(rights) {
		rule = append(rule, one)
	}
	storetest.Must(t, admin.Do(t.Context(), rule...).Err())
	return strings.Replace(server.URL(), "redis://", "redis://"+name+":secret@", 1)
}

// A user who may call functions, and look at them, runs scripts until the operator has loaded them.
func TestOperatorLoadsFunctions(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	s := storetest.Following(storetest.At(t, addUser(t, server, root.Client(), "bellhop", reach.Rights("p", storetest.Shards())), "p"))
	storetest.Must(t, publishAndAck(t.Context(), s.Home()))
	if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused == nil || !strings.Contains(f.Refused.Error(), "function|load") {
		t.Errorf("functions: %v, %v", f, err)
	}
	for range 5 {
		s.LoadAgain()
		storetest.Must(t, publishAndAck(t.Context(), s.Home()))
	}
	storetest.Is(t, "how often the text of the library was sent, and refused", refusalsOf(t, root.Client(), "function|load"), 1)
	s.Abandon()
	storetest.Eventually(t, "behind a new connection it is sent again", func() bool {
		s.LoadAgain()
		return publishAndAck(t.Context(), s.Home()) == nil && refusalsOf(t, root.Client(), "function|load") > 1
	})
	operator := storetest.Unhurried(storetest.At(t, addUser(t, server, root.Client(), "operator", reach.LoadRights()), "p"))
	for _, loaded := range []bool{true, false} {
		all, err := operator.LoadFunctions(t.Context())
		if err != nil || len(all) != 1 || all[0].Loaded != loaded || all[0].Deleted != nil {
			t.Errorf("loaded %+v, %v; want %v", all, err, loaded)
		}
	}
	before := commandsOf(t, root.Client(), "fcall")[0]
	s.LoadAgain()
	storetest.Should(t, publishAndAck(t.Context(), s.Home()))
	if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused != nil {
		t.Errorf("functions: %v, %v", f, err)
	}
	if now := commandsOf(t, root.Client(), "fcall")[0]; now < before+3 {
		t.Errorf("%d calls of functions, and %d before", now, before)
	}
}

// Without a right to functions calls run as scripts, and as functions once it is there.
func TestFunctionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-fcall", "-function|list", "-function"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			server := storetest.Server(t)
			root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
			storetest.Must(t, storetest.ErrOf(root.LoadFunctions(t.Context())))
			url := addUser(t, server, root.Client(), "bellhop", reach.Rights("p", storetest.Shards())+" "+right)
			s := storetest.Unhurried(storetest.At(t, url, "p"))
			for range 10 {
				storetest.Should(t, publishAndAck(t.Context(), s.Home()))
			}
			calls := commandsOf(t, root.Client(), "fcall", "evalsha")
			if calls[0] > 0 || calls[1] < 30 {
				t.Errorf("there were %v calls of functions, and of scripts", calls)
			}
			f, err := s.Home().Functions(t.Context())
			if err != nil || f.Refused == nil || !strings.Contains(f.Refused.Error(), "NOPERM") {
				t.Errorf("functions: %v, %v", f, err)
			}
			addUser(t, server, root.Client(), "bellhop", reach.Rights("p", storetest.Shards()))
			s.LoadAgain()
			storetest.Should(t, publishAndAck(t.Context(), s.Home()))
			if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused != nil {
				t.Errorf("functions: %v, %v", f, err)
			}
			if now := commandsOf(t, root.Client(), "fcall"); now[0] < calls[0]+3 {
				t.Errorf("%d calls of functions, and %d before", now[0], calls[0])
			}
		})
	}
}

// forged returns a library with the names of this version's functions. Each writes under the prefix p.
func forged() string {
	names := regexp.MustCompile(`(?m)^register\('(\w+)'`).FindAllStringSubmatch(script.LibraryText(), -1)
	text := "#!lua name=" + script.LibraryName() + "\nlocal function steal() redis.call('SET', 'p:stolen', 1) return {} end\n"
	for _, name := range append(names, []string{"", "idle"}) {
		text += fmt.Sprintf("redis.register_function('%s_%s', steal)\n", script.LibraryName(), name[1])
	}
	return text
}

// No user with the least rights, under whatever prefix, may change the functions that others call.
func TestTenantsMayNotLoadFunctions(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	storetest.Must(t, publishAndAck(t.Context(), root.Home()))
	tenant := storetest.Unhurried(storetest.At(t, addUser(t, server, root.Client(), "tenant", reach.Rights("q", storetest.Shards())), "q"))
	storetest.Must(t, publishAndAck(t.Context(), tenant.Home()))
	dump, err := root.Client().FunctionDump(t.Context()).Result()
	storetest.Must(t, err)
	c := tenant.Client()
	for what, err := range map[string]error{
		"load": c.FunctionLoadReplace(t.Context(), forged()).Err(), "delete": c.FunctionDelete(t.Context(), script.LibraryName()).Err(),
		"flush": c.FunctionFlush(t.Context()).Err(), "restore": c.FunctionRestore(t.Context(), dump).Err(),
	} {
		if !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// A library that somebody replaced is not called by who connects, nor by who loses a connection: scripts serve, and the error says so.
func TestForeignLibraryIsNotCalled(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	url := addUser(t, server, root.Client(), "bellhop", reach.Rights("p", storetest.Shards()))
	connected := storetest.Following(storetest.At(t, url, "p"))
	for _, s := range []*notify.Store{root, connected} {
		storetest.Must(t, publishAndAck(t.Context(), s.Home()))
	}
	storetest.Must(t, root.Client().FunctionLoadReplace(t.Context(), forged()).Err())
	connected.Abandon()
	for what, s := range map[string]*notify.Store{
		"connects": storetest.Unhurried(storetest.At(t, url, "p")), "connects again": connected, "may load": storetest.Unhurried(storetest.At(t, server.URL(), "p")),
	} {
		storetest.Eventually(t, "who "+what+" goes on", func() bool { return publishAndAck(t.Context(), s.Home()) == nil }) // a call on a connection that was closed fails
		f, err := s.Home().Functions(t.Context())
		var foreign *reach.LibraryError
		if err != nil || !errors.As(f.Refused, &foreign) || !strings.Contains(f.Refused.Error(), "run FUNCTION DELETE "+script.LibraryName()) {
			t.Errorf("who %s: %v, %v", what, f, err)
		}
		if dropped, err := s.Home().DropLibraries(t.Context()); !errors.As(err, &foreign) || dropped != nil {
			t.Errorf("who %s: dropped %v, %v", what, dropped, err)
		}
	}
	if n, err := root.Client().Exists(t.Context(), "p:stolen").Result(); err != nil || n > 0 {
		t.Errorf("the foreign library was called, %v", err)
	}
	if _, err := root.LoadFunctions(t.Context()); err == nil || !strings.Contains(err.Error(), "somebody replaced the library") {
		t.Errorf("loaded: %v", err)
	}
	storetest.Must(t, root.Client().FunctionDelete(t.Context(), script.LibraryName()).Err())
	storetest.Should(t, storetest.ErrOf(root.LoadFunctions(t.Context())))
	connected.LoadAgain()
	if f, err := connected.Home().Functions(t.Context()); err != nil || f.Refused != nil {
		t.Errorf("functions: %v, %v", f, err)
	}
}

// A server whose memory is full before the functions were loaded carries out what frees memory as scripts.
func TestFunctionsMeetFullMemory(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	s := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	var leases []store.Lease
	for range 10 {
		storetest.Must(t, storetest.ErrOf(s.Of("t").Publish(t.Context(), []store.Publish{{Topic: "t", Member: "t:" + record.NewID(), Tail: "\n"}})))
	}
	client := s.Client()
	storetest.Must(t, client.FunctionFlush(t.Context()).Err())
	storetest.Must(t, client.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	full := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	got, err := full.Of("t").Claim(t.Context(), store.Claim{Topic: "t", Max: 10, Lease: time.Minute})
	if err != nil || len(got.Messages) != 10 {
		t.Fatalf("claimed %d, %v", len(got.Messages), err)
	}
	for _, m := range got.Messages {
		leases = append(leases, m.Lease)
	}
	if lost, err := full.Of("t").Ack(t.Context(), "t", leases); err != nil || lost != nil {
		t.Errorf("ack: %v, %v", lost, err)
	}
	if _, err := full.Of("t").Publish(t.Context(), []store.Publish{{Topic: "t", Member: "t:a", Tail: "\n"}}); err == nil {
		t.Error("published into full memory")
	}
	if f, err := full.Home().Functions(t.Context()); err != nil || !redis.HasErrorPrefix(f.Refused, "OOM") {
		t.Errorf("functions: %v, %v", f, err)
	}
	if dropped, err := full.Home().DropLibraries(t.Context()); err != nil || dropped != nil {
		t.Errorf("dropped %v, %v", dropped, err)
	}
	storetest.Must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	full.LoadAgain()
	storetest.Should(t, publishAndAck(t.Context(), full.Of("t")))
	if f, err := full.Home().Functions(t.Context()); err != nil || f.Refused != nil {
		t.Errorf("functions: %v, %v", f, err)
	}
}

// Libraries of other versions work beside this one, until nobody has used them for long. Those of other programs stay, and are not called,
// also where they have such a name.
func TestOtherLibraries(t *testing.T) {
	t.Parallel()
	s := storetest.Unhurried(storetest.At(t, storetest.Server(t).URL(), "p"))
	load := func(text string) {
		t.Helper()
		storetest.Must(t, s.Client().FunctionLoad(t.Context(), text).Err())
	}
	library := func(name string, idle int) string {
		return fmt.Sprintf("#!lua name=%s\nredis.register_function{ function_name = '%[1]s_idle', flags = { 'no-writes' }, callback = function() return %d end }\n", name, idle)
	}
	version := func(unnamed string) (name string) {
		sum := sha1.Sum([]byte(unnamed))
		name = script.LibrariesAre + hex.EncodeToString(sum[:8])
		load(strings.ReplaceAll(unnamed, script.LibrariesAre, name))
		return name
	}
	day := 24 * 60 * 60
	used, unused := version(library(script.LibrariesAre, 3*day-1)), version(library(script.LibrariesAre, 3*day))
	load(library("bellhop_strange", 9*day)) // not the hash of its text
	load(library("another", 9*day))
	second := version(strings.ReplaceAll(script.LibraryText(), script.LibraryName(), script.LibrariesAre) + "\n")
	storetest.Should(t, publishAndAck(t.Context(), s.Home()))
	if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused != nil || f.Others != 3 || f.Used > time.Minute {
		t.Errorf("functions: %v, %v", f, err)
	}
	dropped, err := s.Home().DropLibraries(t.Context())
	if err != nil || !slices.Equal(dropped, []string{unused}) {
		t.Errorf("dropped %v, %v", dropped, err)
	}
	all, err := s.Client().FunctionList(t.Context(), redis.FunctionListQuery{}).Result()
	storetest.Must(t, err)
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	want := []string{"another", script.LibraryName(), second, "bellhop_strange", used}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("there are %q, want %q", names, want)
	}
}

// A library counts as used while it is called, and from the first question on.
func TestLibraryIsIdle(t *testing.T) {
	t.Parallel()
	s := storetest.At(t, storetest.Lend(t), "p")
	storetest.Must(t, publishAndAck(t.Context(), s.Home()))
	idle := func() int64 {
		t.Helper()
		n, err := s.Client().FCall(t.Context(), script.LibraryName()+"_idle", nil).Int64()
		storetest.Must(t, err)
		return n
	}
	storetest.Eventually(t, "it is idle for a second", func() bool { return idle() > 0 })
	storetest.Eventually(t, "it was used now", func() bool {
		storetest.Must(t, publishAndAck(t.Context(), s.Home()))
		return idle() == 0
	})
}

// An error of Redis names the file and the line of the module, where a function and a script fail.
func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	storetest.Must(t, publishAndAck(t.Context(), root.Home()))
	for name, right := range map[string]string{"function": "", "script": "-fcall"} {
		rule := []any{"ACL", "SETUSER", name, "on", ">secret"}
		for _, one := range strings.Fields(reach.Rights("p", storetest.Shards()) + " " + right) {
			rule = append(rule, one)
		}
		storetest.Must(t, root.Client().Do(t.Context(), rule...).Err())
		s := storetest.Unhurried(storetest.At(t, strings.Replace(server.URL(), "redis://", "redis://"+name+":secret@", 1), "p"))
		storetest.Must(t, publishAndAck(t.Context(), s.Home()))
		storetest.Must(t, root.Client().Do(t.Context(), "ACL", "SETUSER", name, "-hset").Err())
		_, err := s.Home().Set(t.Context(), "t", store.SettingsChange{}, false)
		if err == nil {
			_, err = s.Home().Publish(t.Context(), []store.Publish{{Topic: "t", Member: "t:b", Tail: "\n"}, {Topic: "t", Member: "t:c", Tail: "\n"}})
		}
		found := regexp.MustCompile(`([\w/]+)\.lua:(\d+)`).FindStringSubmatch(fmt.Sprint(err))
		if found == nil {
			t.Fatalf("%s: %v", name, err)
		}
		line, _ := strconv.Atoi(found[2])
		if lines := strings.Split(script.Source(found[1]), "\n"); line > len(lines) || !strings.Contains(lines[line-1], "'HSET'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A master that restarts without its data gets the store and the functions again.
func TestMasterRestartsEmpty(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--save", "")
	s := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	storetest.Must(t, publishAndAck(t.Context(), s.Home()))
	server.Stop()
	storetest.Restart(t, server)
	storetest.Eventually(t, "messages are published and acknowledged again", func() bool { return publishAndAck(t.Context(), s.Home()) == nil })
	if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused != nil {
		t.Errorf("functions: %v, %v", f, err)
	}
	all, err := s.Client().FunctionList(t.Context(), redis.FunctionListQuery{}).Result()
	if err != nil || len(all) != 1 || all[0].Name != script.LibraryName() {
		t.Errorf("it has %d libraries, %v", len(all), err)
	}
}

// Each master of a Cluster gets the functions, and again when they are deleted.
func TestFunctionsInACluster(t *testing.T) {
	t.Parallel()
	c, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour) // nobody takes over
	storetest.Must(t, err)
	t.Cleanup(c.Stop)
	s := storetest.Unhurried(withShards(t, c.URL(), "p", 8))
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	for range 2 {
		for _, shard := range shards {
			if _, err := shard.Elect(t.Context(), "me", time.Minute, 0); err != nil {
				t.Errorf("shard %d: %v", shard.Number(), err)
			}
			if f, err := shard.Functions(t.Context()); err != nil || f.Refused != nil {
				t.Errorf("functions of shard %d: %v, %v", shard.Number(), f, err)
			}
		}
		for _, master := range c.Masters {
			client := redis.NewClient(&redis.Options{Addr: master.Addr()})
			defer client.Close()
			all, err := client.FunctionList(t.Context(), redis.FunctionListQuery{}).Result()
			if err != nil || len(all) != 1 || all[0].Name != script.LibraryName() {
				t.Errorf("%s has %d libraries, %v", master.Addr(), len(all), err)
			}
			storetest.Must(t, client.FunctionFlush(t.Context()).Err())
		}
	}
}
