package faults_test

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// playNATS runs a nats-server with JetStream until ctx ends.
func playNATS(ctx context.Context) error {
	port, err := strconv.Atoi(os.Getenv("FAULTS_PORT"))
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: os.Getenv("FAULTS_DIR"),
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return errors.New("nats-server does not start")
	}
	say("ready")
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
