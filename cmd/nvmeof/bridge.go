package main

import (
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/systemd"
)

const ackTimeoutHelp = provider.AckTimeoutHelp
const congestionHelp = provider.CongestionHelp
const maxShards = provider.MaxShards
const pollingHelp = processors.PollingHelp
const transportAuto = provider.Auto
const transportHelp = provider.Help
const transportSoftroce = provider.Softroce
const transportVerbs = provider.Verbs

type congestion = provider.CongestionFlag
type patience = fabricoptions.Duration
type providerConfig = provider.Config

var chooseTransport = provider.Choose
var isTransport = provider.IsName
var lacksZone = provider.LacksZone
var logCounters = provider.LogCounters
var needProcessors = processors.Need
var onSignal = signals.On
var openProvider = provider.Open
var parsePolling = processors.ParsePolling
var tellManager = systemd.Notify
