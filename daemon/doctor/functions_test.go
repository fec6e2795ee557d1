package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The doctor reports whether the server takes the functions, why not, and libraries of other versions.
func TestFunctions(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the rights are those of one")
	server := storetest.Server(t)
	root := storetest.At(t, server.URL(), "")
	do := func(words ...any) {
		t.Helper()
		if err := root.Client().Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	user := []any{"ACL", "SETUSER", "bellhop", "on", ">secret"}
	for _, rule := range strings.Fields(reach.Rights(script.DefaultPrefix, 1)) {
		user = append(user, rule)
	}
	do(user...)
	c := notify.Config{URL: strings.Replace(server.URL(), "redis://", "redis://bellhop:secret@", 1)}
	expect := func(want string) {
		t.Helper()
		if got := report(t, c, "functions"); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("ok functions loaded")
	for i, idle := range []int{3600, 7200} {
		name := fmt.Sprint("bellhop_", i)
		do("FUNCTION", "LOAD", fmt.Sprintf("#!lua name=%s\nredis.register_function('%[1]s_idle', function() return %d end)", name, idle))
	}
	expect("ok functions loaded, beside those of 2 other versions, last used 1h ago")
	do("FUNCTION", "FLUSH")
	for _, right := range []string{"function|load", "fcall"} {
		do("ACL", "SETUSER", "bellhop", "-"+right)
		var findings []doctor.Finding
		_, err := doctor.Run(t.Context(), c, doctor.Options{Quick: true}, func(f doctor.Finding) {
			if f.Check == "functions" {
				findings = append(findings, f)
			}
		})
		const want = "calls run as scripts, which take longer: NOPERM "
		if err != nil || len(findings) != 1 || findings[0].Verdict != doctor.Warn || !strings.HasPrefix(findings[0].Found, want) || !strings.Contains(findings[0].Found, right) || !strings.Contains(findings[0].Remedy, "+"+right) {
			t.Errorf("without %s: got %+v, %v", right, findings, err)
		}
		do("ACL", "SETUSER", "bellhop", "+"+right)
	}
}
