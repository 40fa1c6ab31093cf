"""Trains a small convolutional network on real handwritten digits, on ocl and on the CPU.

    python -m torch_ocl.demo [--device ocl:1] [--epochs N] [--batch-size N] [--output FOLDER]
                             [--no-amp]

Both start from the same weights and train on the same batches, which the image operators shift and
erase at random. On ocl it trains in mixed precision unless --no-amp is given, on the CPU in
float32. Then it compares the image operators with Pillow's on a photograph. It writes a plot of the
losses, a checkpoint and a contact sheet. It exits with 1 if the accuracy on the test images is
below 97 %, or if the operators differ from Pillow in more than 1 % of the bytes.
"""

import argparse
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from torch_ocl import image
from torch_ocl.info import no_device_help

try:
    import matplotlib
    from sklearn.datasets import load_digits
    from tqdm import tqdm

    from torch_ocl.demo_images import write_contact_sheet
except ImportError as error:
    sys.exit(f"The demo needs the package {error.name}: pip install torch-ocl[demo]")

REQUIRED_ACCURACY = 0.97
ALLOWED_DIFFERENCE = 0.01
TEST_IMAGES = 360


def make_network(device, weights=None):
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    if weights is not None:
        network.load_state_dict(weights)
    return network.to(device)


def load_data():
    """(training images, their digits, test images, their digits); images are [n, 1, 8, 8]."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    digits = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, test = order[:-TEST_IMAGES], order[-TEST_IMAGES:]
    return images[train], digits[train], images[test], digits[test]


def augment(images, generator):
    """Shifts every other batch sideways by up to a pixel, and erases a square of it."""

    def number(low, high):
        return int(torch.randint(low, high + 1, (), generator=generator))

    if number(0, 1):
        return images
    (height, width), left = images.shape[-2:], number(-1, 1)
    images = image.crop(images, (left, 0, left + width, height))
    blank = torch.zeros_like(images[..., :2, :2])
    return image.paste(images, blank, (number(-1, width), number(-1, height)))


def train_step(network, optimizer, scaler, images, digits):
    with torch.autocast(images.device.type, enabled=scaler.is_enabled()):
        loss = functional.cross_entropy(network(images), digits)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def make_optimizer(network):
    return torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)


def make_scaler(device, amp):
    return torch.amp.GradScaler(device.type, enabled=amp)


def train(device, weights, images, digits, args):
    """Returns the network, the mean loss of each epoch, and images per second."""
    epochs, batch_size, amp = args.epochs, args.batch_size, args.amp and device.type == "ocl"
    images, digits = images.to(device), digits.to(device)
    steps = len(images) // batch_size

    # Kernels are compiled at their first use, so one step trains a network that is not used.
    warm_up = make_network(device, weights)
    first, theirs = images[:batch_size], digits[:batch_size]
    scaler = make_scaler(device, amp)
    train_step(warm_up, make_optimizer(warm_up), scaler, first, theirs).item()

    network = make_network(device, weights)
    optimizer, scaler = make_optimizer(network), make_scaler(device, amp)
    shuffle = torch.Generator().manual_seed(1)
    losses, seconds = [], 0.0
    with tqdm(total=epochs * steps, desc=f"training on {device}", unit="step") as bar:
        for _ in range(epochs):
            start = time.perf_counter()
            order = torch.randperm(len(images), generator=shuffle).to(device)
            total = torch.zeros((), device=device)
            for step in range(steps):
                batch = order[step * batch_size : (step + 1) * batch_size]
                seen = augment(images[batch], shuffle)
                total += train_step(network, optimizer, scaler, seen, digits[batch])
                bar.update()
            losses.append(total.item() / steps)  # waits for the device
            seconds += time.perf_counter() - start
            bar.set_postfix(loss=f"{losses[-1]:.4f}")
    return network, losses, epochs * steps * batch_size / seconds


def accuracy(network, images, digits):
    device = next(network.parameters()).device
    with torch.no_grad():
        predicted = network(images.to(device)).argmax(1)
    return (predicted == digits.to(device)).sum().item() / len(digits)


def write_plot(path, losses):
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    styles = ["-", "--"]
    for (label, values), style in zip(losses.items(), styles, strict=True):
        axes.plot(range(1, len(values) + 1), values, style, label=label)
    axes.set(xlabel="epoch", ylabel="training loss", yscale="log", title="Handwritten digits")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend()
    figure.savefig(path, dpi=120)


def device_name(device):
    if device.type == "cpu":
        return f"PyTorch's own CPU code, {torch.get_num_threads()} threads"
    return torch.ocl.get_device_properties(device.index or 0).name


def parse_arguments():
    parser = argparse.ArgumentParser(prog="python -m torch_ocl.demo", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="ocl", help="ocl, ocl:1, ... (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=30, help="default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("torch_ocl_demo"))
    parser.add_argument("--no-amp", dest="amp", action="store_false", help="train in float32 only")
    args = parser.parse_args()
    if args.device.startswith("ocl") and not (hasattr(torch, "ocl") and torch.ocl.is_available()):
        sys.exit(no_device_help())
    try:
        args.device = torch.device(args.device)
    except RuntimeError as error:
        parser.error(f"--device: {str(error).splitlines()[0]}")
    if args.device.type == "ocl" and (args.device.index or 0) >= torch.ocl.device_count():
        parser.error(f"--device {args.device}: there are {torch.ocl.device_count()} OpenCL devices")
    if args.epochs < 1 or not 1 <= args.batch_size <= 1024:
        parser.error("--epochs must be at least 1, --batch-size 1 to 1024")
    return args


def main():
    args = parse_arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    images, digits, test_images, test_digits = load_data()
    torch.manual_seed(0)
    weights = make_network("cpu").state_dict()

    device, cpu = args.device, torch.device("cpu")
    print(f"{device}: {device_name(device)}")
    print(f"cpu: {device_name(cpu)}")
    results = {}
    for label, where in {str(device): device, "cpu (reference)": cpu}.items():
        network, losses, speed = train(where, weights, images, digits, args)
        results[label] = network, losses, speed, accuracy(network, test_images, test_digits)

    print(f"\n{'':16} {'images/s':>10} {'loss':>10} {'test accuracy':>14}")
    for label, (_, losses, speed, correct) in results.items():
        print(f"{label:16} {speed:10.0f} {losses[-1]:10.5f} {correct:14.2%}")

    plot = args.output / "loss.png"
    write_plot(plot, {label: losses for label, (_, losses, _, _) in results.items()})
    print(f"\nplot of the losses: {plot}")

    network, _, _, correct = results[str(device)]
    checkpoint = args.output / "checkpoint.pt"
    torch.save(network.state_dict(), checkpoint)
    loaded = make_network(device, torch.load(checkpoint))
    correct_again = accuracy(loaded, test_images, test_digits)
    print(f"checkpoint: {checkpoint}, accuracy after loading it: {correct_again:.2%}")

    sheet = args.output / "image_operators.png"
    differences = write_contact_sheet(sheet, device)
    same = sum(share == 0 for share in differences.values())
    print(f"image operators: {sheet}, {same} of {len(differences)} as Pillow's to the byte")

    if correct_again != correct:
        sys.exit(f"The accuracy was {correct:.2%} before saving and is {correct_again:.2%} after.")
    lowest = min(correct for _, _, _, correct in results.values())
    if lowest < REQUIRED_ACCURACY:
        sys.exit(f"The accuracy {lowest:.2%} is below {REQUIRED_ACCURACY:.0%}.")
    if max(differences.values()) > ALLOWED_DIFFERENCE:
        sys.exit(f"The image operators differ from Pillow's: {differences}")


if __name__ == "__main__":
    main()
