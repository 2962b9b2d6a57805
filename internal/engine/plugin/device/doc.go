// Package device holds the plug-ins for devices: disks, network devices, sound and video
// cards, USB, SATA hosts, platform profiles, the uncore of Intel processors and the bus
// clock of Eee PC netbooks. Each plans changes from a section of a profile;
// engine/plugin/table lists them.
package device
