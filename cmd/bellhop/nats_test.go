package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// runNATS runs a line of the pages as the tool nats would, at NATS_URL. The tool
// itself is in no package of Debian.
func runNATS(args []string, out io.Writer) int {
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.Timeout(storetest.Deadline))
	if err == nil {
		defer nc.Close()
		err = callNATS(nc, args, out)
	}
	if err != nil {
		fmt.Fprintln(out, "nats:", err)
		return 1
	}
	return 0
}

// callNATS executes a verb of the tool with a subject and a body. Verbs that listen never return.
func callNATS(nc *nats.Conn, args []string, out io.Writer) error {
	m, queue, rest := readNATS(args)
	switch verb := rest[0]; verb {
	case "sub", "reply":
		return listenNATS(nc, m, queue, verb == "reply", out)
	case "pub":
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
		return nc.Flush()
	case "micro":
		m = nats.NewMsg("$SRV.INFO." + rest[2])
	case "request":
	default:
		return fmt.Errorf("unknown verb %s", verb)
	}
	answer, err := nc.RequestMsg(m, storetest.Deadline)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", answer.Data)
	if fault := answer.Header.Get("Nats-Service-Error"); fault != "" {
		return fmt.Errorf("refused: %s", fault)
	}
	return nil
}

// readNATS parses a line: its message, its queue group, and its arguments.
func readNATS(args []string) (m *nats.Msg, queue string, rest []string) {
	m = nats.NewMsg("")
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ":")
			m.Header.Set(name, value)
		case "--reply":
			i++
			m.Reply = args[i]
		case "--queue":
			i++
			queue = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	m.Subject = rest[1]
	if len(rest) > 2 {
		m.Data = []byte(rest[2])
	}
	return m, queue, rest
}

// listenNATS prints the messages of a subject, and answers them if answers is true.
func listenNATS(nc *nats.Conn, m *nats.Msg, queue string, answers bool, out io.Writer) error {
	came, err := nc.QueueSubscribeSync(m.Subject, queue)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Listening")
	for {
		got, err := came.NextMsg(time.Hour)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s%s\n", got.Subject, got.Data, cmp.Or(got.Header.Get("Status"), ""))
		if answers && got.Reply != "" {
			if err := got.Respond(m.Data); err != nil {
				return err
			}
		}
	}
}
