package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The page of a topic lists its groups, that of a group says what it waits for, and those of messages lead there.
func TestGroups(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := guarded(t, db)
	root, shop := s.login("root"), s.login("shop")
	done := storetest.Beside(db, "order.a", "order.done")
	storetest.Publish(t, db, notify.Message{Topic: "order.a", ID: "alone"})
	root.get("/ui/topics/order.a").is(http.StatusOK).hides("<h2>Groups")
	for i := range 2 {
		storetest.Publish(t, db, notify.Message{Topic: "order.a", ID: fmt.Sprint("r-", i), Group: "import-7"})
	}
	storetest.Publish(t, db, notify.Message{Topic: done, ID: "end", AfterGroup: "order.a:import-7"})
	const group = "topics/order.a/groups/import-7"
	row := `<a href="` + group + `">import-7</a></th><td class="at">waiting</td><td class="n" data-label="Left">2</td><td class="n nil" data-label="Dead">0</td><td class="below" data-label="Callback"><a href="topics/` + done + `/messages/end">` + done + `:end</a></td>`
	for _, v := range []*visitor{root, shop} {
		v.get("/ui/topics/order.a").is(http.StatusOK).says("<h2>Groups", row).hides("Earlier groups", "Latest groups")
		v.get("/ui/"+group).is(http.StatusOK).says("Waits for 2; then "+done+":end comes", `<a href="topics/order.a/messages/r-0">r-0</a></th><td class="at">ready</td>`, "<dt>Left</dt><dd>2</dd>", `href="find?q=topic%3Aorder.a&#43;group%3Aimport-7"`)
		v.get("/ui/topics/order.a/messages/r-0").is(http.StatusOK).says(`In the group <a href="` + group + `">import-7</a>`)
		v.get("/ui/topics/"+done+"/messages/end").is(http.StatusOK).says("Scheduled, after order.a:import-7, of which 2 are left", `Waits for the group <a href="`+group+`">`)
		v.get("/ui/topics/" + done).is(http.StatusOK).says(`<td class="n nil">–</td><td class="below">after order.a:import-7</td>`)
	}
	s.login("reader").get("/ui/topics/order.a").is(http.StatusOK).hides("import-7")
	s.login("reader").get("/ui/" + group).is(http.StatusForbidden)
	root.get("/ui/topics/order.a/groups/none").is(http.StatusNotFound).says("no group of the topic has this name")

	storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, db).RescheduleIn(t.Context(), done, "end", time.Hour)))
	wait(t, root, "/ui/topics/"+done+"/messages/end", "Scheduled, due in ").says(", or after order.a:import-7, of which 2 are left")
	got, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "order.a", subscribers.ClaimOptions{Max: 3})
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	for _, d := range got {
		storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), hostile[0])))
	}
	storetest.Publish(t, db, notify.Message{Topic: "order.a@mail", ID: "copy", Group: "mails"})
	root.get("/ui/topics/order.a/groups/mails").says(`<a href="topics/order.a@mail/messages/copy">order.a@mail:copy</a></th><td class="at">ready</td>`)
	root.get("/ui/topics/order.a@mail/messages/copy").says(`In the group <a href="topics/order.a/groups/mails">mails</a>`)
	root.get("/ui/topics/order.a@mail").is(http.StatusOK).hides("<h2>Groups")
	root.get("/ui/topics/order.a").says(`<td class="at dead">held</td>`)
	root.get("/ui/"+group).says("Waits for 2, all dead; then "+done+":end comes", `r-1</a></th><td class="at dead">dead</td>`).hides("<script>alert")
}

// Groups are listed a page at a time. Whoever may administer forgets one, and is asked before.
func TestForgetGroup(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := guarded(t, db)
	root, shop := s.login("root"), s.login("shop")
	for i := range 45 {
		storetest.Publish(t, db, notify.Message{Topic: "order.a", ID: fmt.Sprint("m", i), Group: fmt.Sprint("g", i), Delay: time.Hour})
	}
	done := storetest.Beside(db, "order.a", "order.done")
	storetest.Publish(t, db, notify.Message{Topic: done, ID: "end", AfterGroup: "order.a:g0"})
	root.get("/ui/topics/order.a").says(">g44<", ">g25<", "Earlier groups").hides(">g24<", "Latest groups")
	root.get("/ui/topics/order.a?groups=25").says(">g24<", ">g5<", "Earlier groups", "Latest groups").hides(">g25<", ">g4<")
	root.get("/ui/topics/order.a?groups=5").says(">g4<", ">g0<", "Latest groups").hides("Earlier groups")
	root.get("/ui/topics/order.a?groups=x").is(http.StatusUnprocessableEntity).says("it is none of a list of groups")

	const path = "/ui/topics/order.a/groups/g0"
	shop.get(path).is(http.StatusOK).hides("Forget the group")
	shop.act("/ui/topics", path).is(http.StatusForbidden)
	shop.act("/ui/topics", path, "sure", "1").is(http.StatusForbidden)
	root.act(path, path).is(http.StatusOK).says("Forget the group g0, and cancel what waits for it?", "cannot be undone")
	if _, _, err := store.ShowGroup(t.Context(), db, "order.a", "g0"); err != nil {
		t.Errorf("it is forgotten before it is sure: %v", err)
	}
	root.act(path, path, "sure", "1").did("Forgot the group g0: 1 message left it, and "+done+":end is cancelled", "/ui/topics/order.a")
	if _, _, err := store.ShowGroup(t.Context(), db, "order.a", "g0"); !errors.Is(err, store.ErrNoGroup) {
		t.Errorf("it is there: %v", err)
	}
	root.get("/ui/topics/" + done + "/messages/end").is(http.StatusNotFound)
	root.act("/ui/topics", path, "sure", "1").is(http.StatusNotFound)
}
