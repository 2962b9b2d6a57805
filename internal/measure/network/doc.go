// Package network measures the network between this machine and a peer, another fettle that
// serves it: throughput of TCP, time of requests, isochronous UDP, latency under load, and the
// path MTU in both directions. A Plan has the cells, Dial connects to a peer, Run returns a
// Result with samples, intervals and the limit that was found. Peer is the other side.
//
// The two programs exchange messages over one TCP connection, JSON on lines. Streams and requests
// use further connections to the same port, probes use UDP with the same port number. Each side
// proves that it knows the key of the peer; each connection and each datagram carries a token that
// is derived from it, so a peer ignores all other senders.
package network
