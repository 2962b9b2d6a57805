// Package scenario runs steps of several protocols by many virtual hosts against servers. A
// scenario is a YAML file: HTTP requests, MQTT messages, waiting for a state and commands, with
// think times, data, checks and thresholds. The result counts each step and each host.
package scenario
