package doctor_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestReplicas(t *testing.T) {
	t.Parallel()
	lone := storetest.Server(t)
	master := storetest.Server(t)
	replica, err := master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir()})
	storetest.Must(t, err)
	t.Cleanup(replica.Stop)
	var spare *redisserver.Server
	another := func() {
		second, err := master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir()})
		storetest.Must(t, err)
		t.Cleanup(second.Stop)
		spare = second
	}
	set := func(setting, value string) {
		storetest.Must(t, storetest.At(t, master.URL(), "").Client().ConfigSet(t.Context(), setting, value).Err())
	}
	guard := func() {
		set("min-replicas-to-write", "1")
		set("min-replicas-max-lag", "3600") // s: on a machine that stands still they answer late
	}
	hang := func() {
		set("min-replicas-max-lag", "2")
		for _, s := range []*redisserver.Server{replica, spare} {
			storetest.Must(t, s.Signal(syscall.SIGSTOP))
			t.Cleanup(func() { _ = s.Signal(syscall.SIGCONT) })
		}
		store := storetest.At(t, master.URL(), "")
		storetest.Eventually(t, "hanging replicas are missed", func() bool {
			info, err := store.Home().Info(t.Context())
			return err == nil && info["min_slaves_good_slaves"] == "0"
		})
	}
	for _, test := range []struct {
		name  string
		at    *redisserver.Server
		wait  int
		setup func()
		want  doctor.Verdict // zero: no finding
		found string
	}{
		{name: "none", at: lone},
		{name: "none, and one is waited for", at: lone, wait: 1, want: doctor.Fail, found: "0 connected, but BELLHOP_WAIT_REPLICAS is 1"},
		{name: "not waited for", at: master, want: doctor.Warn, found: "nothing waits for them"},
		{name: "too few", at: master, wait: 2, want: doctor.Fail, found: "1 connected, but BELLHOP_WAIT_REPLICAS is 2"},
		{name: "no minimum", at: master, wait: 1, want: doctor.Warn, found: "a master that is cut off"},
		{name: "a minimum", at: master, wait: 1, setup: guard, want: doctor.Warn, found: "1 connected, 1 waited for: publishing stops"},
		{name: "one to spare", at: master, wait: 1, setup: another, want: doctor.OK, found: "2 connected, 1 waited for"},
		{name: "a replica itself", at: replica, want: doctor.Fail, found: "this server is itself a replica"},
		{name: "they hang", at: master, wait: 1, setup: hang, want: doctor.Fail, found: "2 connected, 0 of them answered lately, 1 waited for"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.setup != nil {
				test.setup()
			}
			var got doctor.Finding
			storetest.Must(t, storetest.ErrOf(doctor.Run(t.Context(), notify.Config{URL: test.at.URL(), WaitReplicas: test.wait}, doctor.Options{}, func(f doctor.Finding) {
				if f.Check == "replicas" {
					got = f
				}
			})))
			if got.Verdict != test.want || !strings.Contains(got.Found, test.found) {
				t.Errorf("got %v, %q; want %v, %q", got.Verdict, got.Found, test.want, test.found)
			}
		})
	}
}
