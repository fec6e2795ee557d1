package reach_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		_, rest, _ := strings.Cut(info, "cmdstat_"+name+":calls=")
		text, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(text)
		calls = append(calls, n)
	}
	return calls
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
				if err := publishAndAck(t.Context(), s.Of("t")); err != nil {
					t.Error(err)
				}
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

// Where a server does not take the functions, calls run as scripts, and as functions once it does.
func TestFunctionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-fcall", "-function|load", "-function"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			server := storetest.Server(t)
			root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
			set := func(rules ...string) {
				t.Helper()
				rule := []any{"ACL", "SETUSER", "bellhop", "on", ">secret"}
				for _, one := range append(strings.Fields(reach.Rights("p", 1)), rules...) {
					rule = append(rule, one)
				}
				if err := root.Client().Do(t.Context(), rule...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set(right)
			s := storetest.Unhurried(storetest.At(t, strings.Replace(server.URL(), "redis://", "redis://bellhop:secret@", 1), "p"))
			for range 10 {
				if err := publishAndAck(t.Context(), s.Home()); err != nil {
					t.Error(err)
				}
			}
			calls := commandsOf(t, root.Client(), "fcall", "evalsha", "function|load")
			if calls[0] > 1 || calls[1] < 30 || calls[2] > 0 { // one is that of a function that is not there
				t.Errorf("there were %v calls of functions, of scripts, and to load", calls)
			}
			f, err := s.Home().Functions(t.Context())
			if err != nil || f.Refused == nil || !strings.Contains(f.Refused.Error(), "NOPERM") {
				t.Errorf("functions: %v, %v", f, err)
			}
			set()
			s.LoadAgain()
			if err := publishAndAck(t.Context(), s.Home()); err != nil {
				t.Error(err)
			}
			if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused != nil {
				t.Errorf("functions: %v, %v", f, err)
			}
			if now := commandsOf(t, root.Client(), "fcall"); now[0] < calls[0]+3 {
				t.Errorf("%d calls of functions, and %d before", now[0], calls[0])
			}
		})
	}
}

// A server whose memory is full before the functions were loaded carries out what frees memory as scripts.
func TestFunctionsMeetFullMemory(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	s := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	var leases []store.Lease
	for range 10 {
		if _, err := s.Of("t").Publish(t.Context(), []store.Publish{{Topic: "t", Member: "t:" + record.NewID(), Tail: "\n"}}); err != nil {
			t.Fatal(err)
		}
	}
	client := s.Client()
	if err := client.FunctionFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
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
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	full.LoadAgain()
	if err := publishAndAck(t.Context(), full.Of("t")); err != nil {
		t.Error(err)
	}
	if f, err := full.Home().Functions(t.Context()); err != nil || f.Refused != nil {
		t.Errorf("functions: %v, %v", f, err)
	}
}

// Libraries of other versions work beside this one, until nobody has used them for long. Those of other programs stay.
func TestOtherLibraries(t *testing.T) {
	t.Parallel()
	s := storetest.Unhurried(storetest.At(t, storetest.Server(t).URL(), "p"))
	library := func(name, function string, idle int) {
		t.Helper()
		text := fmt.Sprintf("#!lua name=%s\nredis.register_function{ function_name = '%s', flags = { 'no-writes' }, callback = function() return %d end }\n", name, function, idle)
		if err := s.Client().FunctionLoad(t.Context(), text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	day := 24 * 60 * 60
	library("bellhop_used", "bellhop_used_idle", 3*day-1)
	library("bellhop_unused", "bellhop_unused_idle", 3*day)
	library("bellhop_strange", "anything", 9*day)
	library("another", "another_idle", 9*day)
	second := strings.ReplaceAll(script.LibraryText(), script.LibraryName(), "bellhop_second")
	if err := s.Client().FunctionLoad(t.Context(), second).Err(); err != nil {
		t.Fatal(err)
	}
	if err := publishAndAck(t.Context(), s.Home()); err != nil {
		t.Error(err)
	}
	if f, err := s.Home().Functions(t.Context()); err != nil || f.Refused != nil || f.Others != 3 || f.Used > time.Minute {
		t.Errorf("functions: %v, %v", f, err)
	}
	dropped, err := s.Home().DropLibraries(t.Context())
	if err != nil || !slices.Equal(dropped, []string{"bellhop_unused"}) {
		t.Errorf("dropped %v, %v", dropped, err)
	}
	all, err := s.Client().FunctionList(t.Context(), redis.FunctionListQuery{}).Result()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	want := []string{"another", script.LibraryName(), "bellhop_second", "bellhop_strange", "bellhop_used"}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("there are %q, want %q", names, want)
	}
}

// A library counts as used while it is called, and from the first question on.
func TestLibraryIsIdle(t *testing.T) {
	t.Parallel()
	s := storetest.At(t, storetest.Lend(t), "p")
	if err := publishAndAck(t.Context(), s.Home()); err != nil {
		t.Fatal(err)
	}
	idle := func() int64 {
		t.Helper()
		n, err := s.Client().FCall(t.Context(), script.LibraryName()+"_idle", nil).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	storetest.Eventually(t, "it is idle for a second", func() bool { return idle() > 0 })
	storetest.Eventually(t, "it was used now", func() bool {
		if err := publishAndAck(t.Context(), s.Home()); err != nil {
			t.Fatal(err)
		}
		return idle() == 0
	})
}

// An error of Redis names the file and the line of the module, where a function and a script fail.
func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	root := storetest.Unhurried(storetest.At(t, server.URL(), "p"))
	if err := publishAndAck(t.Context(), root.Home()); err != nil {
		t.Fatal(err)
	}
	for name, right := range map[string]string{"function": "", "script": "-fcall"} {
		rule := []any{"ACL", "SETUSER", name, "on", ">secret"}
		for _, one := range strings.Fields(reach.Rights("p", 1) + " " + right) {
			rule = append(rule, one)
		}
		if err := root.Client().Do(t.Context(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
		s := storetest.Unhurried(storetest.At(t, strings.Replace(server.URL(), "redis://", "redis://"+name+":secret@", 1), "p"))
		if err := publishAndAck(t.Context(), s.Home()); err != nil {
			t.Fatal(err)
		}
		if err := root.Client().Do(t.Context(), "ACL", "SETUSER", name, "-hset").Err(); err != nil {
			t.Fatal(err)
		}
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
	if err := publishAndAck(t.Context(), s.Home()); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	again, err := server.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	s := storetest.Unhurried(withShards(t, c.URL(), "p", 8))
	shards, err := s.Shards(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
			if err := client.FunctionFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
