// Package systemd reads systemd's units as systemd does, and asks and tells its services
// with systemctl.
package systemd
