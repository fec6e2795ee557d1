package natsgate

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

const (
	serviceName        = "bellhop" // and its queue group
	serviceVersion     = "1.0.0"   // of the contract: it changes when clients have to
	serviceDescription = "Delayed and broadcast notifications: publish, claim, settle."

	maxQuestions     = 1000    // waiting questions about the service, of one subject
	maxQuestionsSize = 1 << 20 // bytes of them
)

// addDiscovery answers questions about the service on a connection.
func (g *Gate) addDiscovery(s *service, conn *nats.Conn) error {
	questions := map[micro.Verb]func() any{
		micro.PingVerb:  func() any { return micro.Ping{ServiceIdentity: g.identity, Type: micro.PingResponseType} },
		micro.InfoVerb:  func() any { return g.serviceInfo() },
		micro.StatsVerb: func() any { return g.serviceStats() },
	}
	for verb, answer := range questions {
		respond := func(m *nats.Msg) { g.respond(m, answer) }
		all := micro.APIPrefix + "." + verb.String()
		for _, subject := range []string{all, all + "." + serviceName, all + "." + serviceName + "." + g.identity.ID} {
			sub, err := conn.Subscribe(subject, respond)
			if err := s.add(sub, err, maxQuestions, maxQuestionsSize); err != nil {
				return fmt.Errorf("answer %s: %w", subject, err)
			}
		}
	}
	return nil
}

// respond answers a question about the service.
func (g *Gate) respond(m *nats.Msg, answer func() any) {
	if !g.mayReply("discovery", m.Reply) {
		return
	}
	data, _ := json.Marshal(answer()) // of types that always can
	if m.Respond(data) != nil {
		g.count.lostReplies.Add(1)
	}
}

func (g *Gate) serviceInfo() micro.Info {
	info := micro.Info{ServiceIdentity: g.identity, Type: micro.InfoResponseType, Description: serviceDescription}
	for _, e := range g.endpoints {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: e.name, Subject: g.subject(e), QueueGroup: serviceName})
	}
	return info
}

func (g *Gate) serviceStats() micro.Stats {
	stats := micro.Stats{ServiceIdentity: g.identity, Type: micro.StatsResponseType, Started: g.made}
	for _, e := range g.endpoints {
		counted := e.tally.read()
		data, _ := json.Marshal(counted)
		stats.Endpoints = append(stats.Endpoints, &micro.EndpointStats{
			Name: e.name, Subject: g.subject(e), QueueGroup: serviceName,
			NumRequests: int(counted.Requests), NumErrors: int(counted.Refused + counted.Failed), Data: data,
		})
	}
	return stats
}
