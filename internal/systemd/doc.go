// Package systemd reads unit files as systemd does, with their drop-ins, environment
// and limits, and controls services with systemctl. Products and plug-ins use it.
package systemd
