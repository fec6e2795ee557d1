package doctor_test

import (
	"crypto/sha1"
	"encoding/hex"
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
		storetest.Must(t, root.Client().Do(t.Context(), words...).Err())
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
	const toLoad = "run bellhop functions load, as a user who may do that"
	expectFault := func(verdict doctor.Verdict, found, remedy string) {
		t.Helper()
		var findings []doctor.Finding
		_, err := doctor.Run(t.Context(), c, doctor.Options{Quick: true}, func(f doctor.Finding) {
			if f.Check == "functions" {
				findings = append(findings, f)
			}
		})
		if err != nil || len(findings) != 1 || findings[0].Verdict != verdict || !strings.Contains(findings[0].Found, found) || !strings.Contains(findings[0].Remedy, remedy) {
			t.Errorf("got %+v, %v; want %v, %q, %q", findings, err, verdict, found, remedy)
		}
	}
	expectFault(doctor.Warn, "calls run as scripts, which take longer: nobody loaded this version's functions", toLoad)
	storetest.Must(t, storetest.ErrOf(root.LoadFunctions(t.Context())))
	expect("ok functions loaded")
	for _, idle := range []int{3600, 7200} {
		unnamed := fmt.Sprintf("#!lua name=bellhop_\nredis.register_function('bellhop__idle', function() return %d end)", idle)
		sum := sha1.Sum([]byte(unnamed))
		do("FUNCTION", "LOAD", strings.ReplaceAll(unnamed, "bellhop_", "bellhop_"+hex.EncodeToString(sum[:8])))
	}
	do("FUNCTION", "LOAD", "#!lua name=bellhop_1\nredis.register_function('bellhop_1_idle', function() return 1 end)") // no version's
	expect("ok functions loaded, beside those of 2 other versions, last used 1h ago")
	for _, right := range []string{"function|list", "fcall"} {
		do("ACL", "SETUSER", "bellhop", "-"+right)
		expectFault(doctor.OK, "calls run as scripts, which take longer: NOPERM this user has no permissions to run the '"+right+"' command", "")
		do("ACL", "SETUSER", "bellhop", "+"+right)
	}
	do("FUNCTION", "LOAD", "REPLACE", fmt.Sprintf("#!lua name=%s\nredis.register_function('%[1]s_publish', function() return 1 end)", script.LibraryName()))
	expectFault(doctor.Fail, "somebody replaced the library "+script.LibraryName(), "run FUNCTION DELETE "+script.LibraryName()+" and bellhop functions load")
}
