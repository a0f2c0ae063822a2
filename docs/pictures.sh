#!/bin/sh
# Draws the pictures of README.md into docs/img. Usage: docs/pictures.sh [phalanx binary]
set -eu
phalanx=$(realpath "${1:-target/release/phalanx}")
cd "$(dirname "$0")/img"
draw() { "$phalanx" render --quiet --env "$@"; }

draw CartPole-v1 --out CartPole-v1.gif --policy pid --policy-arg kp=-1 --policy-arg kd=-0.25 --policy-arg control_low=-1 --policy-arg control_high=1 --state 0,0,0.15,0 --actions policy:90 --scale 0.5 --every 2 --fps 25
draw Pendulum-v1 --out Pendulum-v1.gif --policy bangbang --policy-arg obs_field=theta_dot --state 3,0 --actions policy:110 --scale 0.45 --every 2 --fps 10
draw pendulum-control --out pendulum-control.gif --policy pid --policy-arg obs_field=sin_theta --policy-arg kp=-12 --policy-arg kd=-2 --state 2.8,0 --actions policy:60 --scale 0.45 --every 2 --fps 10
draw MountainCar-v0 --out MountainCar-v0.gif --policy bangbang --policy-arg obs_field=velocity --actions policy:200 --scale 0.5 --every 3 --fps 12
draw MountainCarContinuous-v0 --out MountainCarContinuous-v0.gif --policy bangbang --policy-arg obs_field=velocity --actions policy:200 --scale 0.5 --every 3 --fps 12
draw Acrobot-v1 --out Acrobot-v1.gif --policy bangbang --policy-arg obs_field=theta2_dot --actions policy:200 --scale 0.45 --every 2 --fps 8
draw ccasr-gfp-control --out ccasr-gfp-control.png --seed 4 --policy bangbang --policy-arg setpoint=0.3125 --policy-arg obs_field=F_normalized --policy-arg invert=true --actions policy:288 --sheet 1 --scale 0.8
draw ccasr-gfp-sysid --out ccasr-gfp-sysid.png --policy periodic --policy-arg pulse_width=48 --actions policy:288 --sheet 1 --scale 0.8
draw opto-hill-1d-sysid --out opto-hill-1d-sysid.png --policy periodic --policy-arg pulse_width=48 --actions policy:288 --sheet 1 --scale 0.8
draw ChemicalReactor-v0 --out ChemicalReactor-v0.png --policy constant --policy-arg action=0.3:0:0 --actions policy:500 --sheet 1 --scale 0.8
draw VanDeVusse-v0 --out VanDeVusse-v0.png --policy periodic --policy-arg pulse_width=50 --param feed_min=15 --param feed_max=40 --param cooling_min=-7000 --param cooling_max=-5000 --actions policy:200 --sheet 1 --scale 0.8
draw TicTacToe-v0 --out TicTacToe-v0.gif --param opponent=perfect --seed 3 --actions random:9 --scale 0.5 --fps 1
printf '14,4,4,4,4\n14,6,1,6,1\n34,0,0,0,0\n' | draw ARC-v0 --out ARC-v0.gif --param select=04-holes --seed 1 --actions - --scale 0.6 --fps 1
draw TwoArmedBandit-v0 --out TwoArmedBandit-v0.png --actions random:10 --sheet 1 --scale 0.8
