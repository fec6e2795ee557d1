package console

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Root is the path below which all pages are.
const Root = "/ui/"

// Addresses on pages, in forms and in answers are seen from Root, and pages say by their base where that is from them: a
// proxy may serve all of them below a path of its own, which it need not tell.

// home is the address of the overview.
const home = "./"

// baseOf returns the address of Root as it is seen from that of a request.
func baseOf(r *http.Request) string {
	return cmp.Or(strings.Repeat("../", strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), Root), "/")), home)
}

// hereOf returns the address of a request as its client wrote it: a link within a page is another page otherwise.
func hereOf(r *http.Request) string {
	here := home + strings.TrimPrefix(r.URL.EscapedPath(), Root)
	if r.URL.RawQuery != "" {
		here += "?" + r.URL.RawQuery
	}
	return here
}

// address returns the address of a request with other parameters.
func address(r *http.Request, q url.Values) string {
	return addressBelow(strings.TrimPrefix(r.URL.Path, Root), q)
}

func addressBelow(path string, q url.Values) string {
	u := url.URL{Path: path, RawQuery: q.Encode()}
	return cmp.Or(u.String(), home)
}

// lead answers with the way to another page. It begins with a dot, so that it leads to no other host.
func lead(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Location", baseOf(r)+strings.TrimPrefix(to, home))
	w.WriteHeader(http.StatusSeeOther)
}

// nextOf returns the address of the page that a client names, to go there: one below Root, and not of the login.
func nextOf(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/") {
		return home
	}
	cleaned := path.Join(Root, u.Path) + "/"
	if !strings.HasPrefix(cleaned, Root) || strings.HasPrefix(cleaned, Root+"log") {
		return home
	}
	return addressBelow(strings.Trim(strings.TrimPrefix(cleaned, Root), "/"), u.Query())
}

// topicPath returns the address of the page of a topic.
func topicPath(topic string) string { return "topics/" + url.PathEscape(topic) }

// messagePath returns the address of the page of a message.
func messagePath(topic, id string) string {
	return topicPath(topic) + "/messages/" + url.PathEscape(id)
}

// groupPath returns the address of the page of a group.
func groupPath(topic, name string) string {
	return topicPath(topic) + "/groups/" + url.PathEscape(name)
}

// schedulesPath returns the address of the schedules of a topic.
func schedulesPath(topic string) string { return "schedules?topic=" + url.QueryEscape(topic) }

// schedulePath returns the address of the page of a schedule.
func schedulePath(topic, name string) string {
	return topicPath(topic) + "/schedules/" + url.PathEscape(name)
}

// putSchedulePath returns the address of the form that puts a schedule; without a name, one of a topic.
func putSchedulePath(topic, name string) string {
	return "put/schedule?" + url.Values{"topic": {topic}, "name": {name}}.Encode()
}

// findPath returns the address of the page that answers a question.
func findPath(q string) string { return "find?q=" + url.QueryEscape(q) }

// actPath returns the address of the page that shows how many messages an act is for.
func actPath(q, kind string) string {
	return "find/act?" + url.Values{"q": {q}, "act": {kind}}.Encode()
}

// deadPath returns the address of the dead letters of a topic, with a reason or without.
func deadPath(topic, reason string) string {
	q := url.Values{"topic": {topic}}
	if reason != "" {
		q.Set("reason", reason)
	}
	return "dead/letters?" + q.Encode()
}

// receiversPath returns the address of the page that shows who has a broadcast.
func receiversPath(topic, id string) string {
	return "broadcasts/of?" + url.Values{"topic": {topic}, "id": {id}}.Encode()
}

// removePath returns the address of the page that asks whether to remove a listener.
func removePath(name string) string { return "broadcasts/remove?name=" + url.QueryEscape(name) }

// outboxPath returns the address of the page of the outboxes, with what that of a database refused.
func outboxPath(database string) string { return "outbox?database=" + url.QueryEscape(database) }

// pushPath returns the address of the page of a push.
func pushPath(name string) string { return "pushes/" + url.PathEscape(name) }

// putPushPath returns the address of the form that changes a push.
func putPushPath(name string) string { return "put/push?name=" + url.QueryEscape(name) }
