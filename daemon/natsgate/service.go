package natsgate

import (
	"context"
	"fmt"

	"github.com/bellhopd/bellhop/daemon/calls"
)

// makeEndpoints returns what the gateway offers.
func (g *Gate) makeEndpoints() []endpoint {
	searches, lists := make(turns, maxSearches), make(turns, maxLists)
	all := []endpoint{
		{name: "publish", rest: ">", handle: g.publish(false), most: maxWaitingSize},
		{name: "publish-broadcast", rest: ">", handle: g.publish(true), most: maxWaitingSize},
		{name: "claim", rest: ">", handle: g.claim, most: maxSmallSize, turns: make(turns, maxClaims)},
		{name: "settle", rest: "*.*", handle: g.settle, silent: true, most: maxSmallSize},
		{name: calls.Inspect.Subject(), rest: ">", handle: g.inspect, most: maxSmallSize, turns: g.reads},
		{name: calls.Settings.Subject(), rest: ">", handle: g.settings, most: maxSmallSize},
		{name: "defaults", handle: g.defaults, most: maxSmallSize},
	}
	for _, c := range calls.Table() {
		all = append(all, g.offered(c, searches, lists)...)
	}
	for i := range all {
		all[i].tally = new(tally)
	}
	return all
}

// addService offers the endpoints on a connection. It fails if the connection
// is lost already.
func (g *Gate) addService(work context.Context, conn *connection) (*service, error) {
	s := newService()
	for _, e := range g.endpoints {
		sub, err := conn.nc.QueueSubscribe(g.subject(e), serviceName, g.handler(work, conn, e))
		if err := s.add(sub, err, maxWaiting, e.most); err != nil {
			_ = s.stop() // the connection is lost, which is logged
			return nil, fmt.Errorf("offer %s: %w", e.name, err)
		}
	}
	if err := g.addDiscovery(s, conn.nc); err != nil {
		_ = s.stop()
		return nil, err
	}
	return s, nil
}
