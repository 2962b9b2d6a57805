package mqtt

import (
	"net"
	"sync"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// broker simulates a broker as far as hosts and a proxy need it: it sends each message to the
// subscribers of its topic, and stores nothing.
type broker struct {
	address string
	listen  net.Listener
	// most is the maximum number of clients; 0 means no limit.
	most int
	// deaf reports whether a message is to be lost.
	deaf func(topic string) bool

	mu      sync.Mutex
	clients map[net.Conn]bool
	to      map[string]net.Conn // of each topic
	names   map[string]int      // how often a client of a name was let in
	pings   int
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{address: l.Addr().String(), listen: l, clients: map[net.Conn]bool{}, to: map[string]net.Conn{}, names: map[string]int{}}
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	for {
		c, err := b.listen.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		full := b.most > 0 && len(b.clients) >= b.most
		if !full {
			b.clients[c] = true
		}
		b.mu.Unlock()
		if full { // as mosquitto does
			c.Close()
			continue
		}
		go b.serve(c)
	}
}

func (b *broker) stop() {
	b.listen.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.clients {
		c.Close()
	}
}

func (b *broker) serve(c net.Conn) {
	defer func() {
		b.mu.Lock()
		delete(b.clients, c)
		b.mu.Unlock()
		c.Close()
	}()
	for {
		p, err := packets.ReadPacket(c)
		if err != nil || !b.handle(c, p) {
			return
		}
	}
}

func (b *broker) handle(c net.Conn, p packets.ControlPacket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch p := p.(type) {
	case *packets.ConnectPacket:
		b.names[p.ClientIdentifier]++
		return packets.NewControlPacket(packets.Connack).Write(c) == nil
	case *packets.SubscribePacket:
		for _, topic := range p.Topics {
			b.to[topic] = c
		}
		ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
		ack.MessageID, ack.ReturnCodes = p.MessageID, p.Qoss
		return ack.Write(c) == nil
	case *packets.PublishPacket:
		if to := b.to[p.TopicName]; to != nil && (b.deaf == nil || !b.deaf(p.TopicName)) {
			_ = p.Write(to)
		}
		ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
		ack.MessageID = p.MessageID
		return ack.Write(c) == nil
	case *packets.PingreqPacket:
		b.pings++
		return packets.NewControlPacket(packets.Pingresp).Write(c) == nil
	case *packets.PubackPacket:
		return true
	}
	return false // DISCONNECT
}
